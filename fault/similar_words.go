package fault

import (
	"slices"
	"strings"
)

// Similar returns the known words that differ from a mistyped word in at most that many letters, the nearest first and
// equally near ones in their given order. Letter case does not count.
func Similar(word string, known []string, within int) []string {
	type candidate struct {
		word     string
		distance int
	}
	var near []candidate
	for _, k := range known {
		if max(len(k)-len(word), len(word)-len(k)) > within { // the distance is larger; long words cost nothing
			continue
		}
		if d := distance(strings.ToLower(word), strings.ToLower(k)); d <= within {
			near = append(near, candidate{k, d})
		}
	}
	slices.SortStableFunc(near, func(a, b candidate) int { return a.distance - b.distance })
	words := make([]string, 0, len(near))
	for _, c := range near {
		words = append(words, c.word)
	}
	return words
}

// distance counts the bytes to insert, delete or replace, and the neighbours to swap, between two words.
func distance(a, b string) int {
	rows := make([][]int, len(a)+1)
	for i := range rows {
		rows[i] = make([]int, len(b)+1)
		rows[i][0] = i
	}
	for j := range rows[0] {
		rows[0][j] = j
	}
	for i := 1; i <= len(a); i++ {
		for j := 1; j <= len(b); j++ {
			cost := rows[i-1][j-1]
			if a[i-1] != b[j-1] {
				cost++
			}
			cost = min(cost, rows[i-1][j]+1, rows[i][j-1]+1)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				cost = min(cost, rows[i-2][j-2]+1)
			}
			rows[i][j] = cost
		}
	}
	return rows[len(a)][len(b)]
}

// DidYouMean returns what to do about a mistyped word, as the end of a message: the known words that are similar or
// contain it, or otherwise.
func DidYouMean(word string, known []string, otherwise string) string {
	const most, part = 3, 3
	var near []string
	for _, k := range Similar(word, known, max(min(2, len(word)/2), len(word)/4)) {
		if k != "" && !slices.Contains(near, k) {
			near = append(near, k)
		}
	}
	for _, k := range known {
		within := len(word) >= part && strings.Contains(strings.ToLower(k), strings.ToLower(word))
		if within && !slices.Contains(near, k) {
			near = append(near, k)
		}
	}
	if len(near) == 0 {
		return otherwise
	}
	return "did you mean " + strings.Join(near[:min(len(near), most)], " or ") + "?"
}
