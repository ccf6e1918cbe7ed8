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

// distance counts the bytes to insert, delete or replace between two words (Levenshtein).
func distance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			cost := diagonal
			if a[i] != b[j] {
				cost++
			}
			diagonal = row[j+1]
			row[j+1] = min(cost, row[j]+1, row[j+1]+1)
		}
	}
	return row[len(b)]
}
