package clienttest

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"regexp"
	"slices"
	"strings"
)

// equivalent reports whether both outputs are equivalent for the line.
func equivalent(l line, berth, original string) bool {
	switch {
	case l.refused && status.MatchString(original):
		return status.FindString(berth) == status.FindString(original)
	case l.more:
		var got, want []any
		if errors.Join(json.Unmarshal([]byte(berth), &got), json.Unmarshal([]byte(original), &want)) != nil ||
			len(want) == 0 {
			return false
		}
		return !slices.ContainsFunc(want, func(one any) bool {
			return !slices.ContainsFunc(got, func(other any) bool { return reflect.DeepEqual(one, other) })
		})
	}
	return canonical(berth) == canonical(original)
}

// isAnswer reports whether an output is a result, which is JSON or empty, and not an error text.
func isAnswer(output string) bool { return output == "" || json.Valid([]byte(output)) }

// canonical replaces generated UUIDs and sorts lists, whose order is not defined.
func canonical(output string) string {
	output = hideUUIDs(output)
	var value any
	if json.Unmarshal([]byte(output), &value) != nil {
		return output
	}
	text, err := json.MarshalIndent(sorted(value), "", "  ")
	if err != nil {
		return err.Error()
	}
	return string(text)
}

// hideUUIDs replaces UUIDs that the servers generated. Those of the test consist of one digit, except version and
// variant.
func hideUUIDs(output string) string {
	return uuids.ReplaceAllStringFunc(output, func(id string) string {
		if strings.Count(id[:8], id[:1]) == 8 {
			return id
		}
		return "<uuid>"
	})
}

// sorted sorts lists by the text of their members, and lists inside a string ("DISK_GB=0/100,VCPU=0/64"). The rows
// of candidates are numbered in the order of the candidates: rows with one number become one member.
func sorted(value any) any {
	switch v := value.(type) {
	case string:
		words := strings.Split(v, ",")
		slices.Sort(words)
		return strings.Join(words, ",")
	case map[string]any:
		for key := range v {
			v[key] = sorted(v[key])
		}
	case []any:
		v = groupCandidates(v)
		for i := range v {
			v[i] = sorted(v[i])
		}
		slices.SortFunc(v, func(a, b any) int { return cmp.Compare(fmt.Sprint(a), fmt.Sprint(b)) })
		return v
	}
	return value
}

// groupCandidates groups numbered rows by their number; other rows are returned unchanged.
func groupCandidates(rows []any) []any {
	var grouped []any
	var numbers []any
	for _, one := range rows {
		row, ok := one.(map[string]any)
		number, numbered := row["#"]
		if !ok || !numbered {
			return rows
		}
		delete(row, "#")
		i := slices.Index(numbers, number)
		if i < 0 {
			i = len(numbers)
			numbers, grouped = append(numbers, number), append(grouped, []any{})
		}
		grouped[i] = append(grouped[i].([]any), row)
	}
	return append([]any{}, grouped...)
}

// status is the client's text for an error of the server; it is missing in errors of the client itself.
var status = regexp.MustCompile(`\(HTTP \d+\)`)

var uuids = regexp.MustCompile(`\b([0-9a-f]{8})-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}\b`)
