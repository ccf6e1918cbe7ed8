package conformance

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// Compare returns the differences between two answers to the same request, except those that an exception allows. The
// caller has replaced the names that each server generated.
func (r Rules) Compare(ask Request, theirs, ours Answer) []string {
	switch r.modeOf(ask, theirs, "answer") {
	case ignore:
		return nil
	case notFailed:
		if ours.Status >= http.StatusInternalServerError {
			return []string{fmt.Sprintf("status %d: a server error", ours.Status)}
		}
		return nil
	}
	diffs, comparable := r.envelope(ask, theirs, ours)
	if !comparable || ask.Method == http.MethodHead || r.modeOf(ask, theirs, "body") == ignore {
		return diffs
	}
	want, wantErr := decode(theirs.Body)
	got, gotErr := decode(ours.Body)
	wantJSON, gotJSON := wantErr == nil, gotErr == nil
	switch {
	case wantJSON != gotJSON:
		diffs = append(diffs, fmt.Sprintf("body: JSON %v, want %v", gotJSON, wantJSON))
	case !wantJSON:
		if theirs.Body != ours.Body {
			diffs = append(diffs, fmt.Sprintf("body %q, want %q", shorten(ours.Body), shorten(theirs.Body)))
		}
	default:
		diffs = append(diffs, r.correctOriginal(ask, theirs, want, got)...)
		diffs = r.diffDocuments(ask, theirs, diffs, r.canonical(ask, theirs, "body", want), r.canonical(ask, theirs, "body",
			got))
	}
	return diffs
}

// envelope compares status and headers. comparable is false if the statuses differ, so that comparing the bodies is of
// no use.
func (r Rules) envelope(ask Request, theirs, ours Answer) (diffs []string, comparable bool) {
	comparable = true
	if theirs.Status != ours.Status && r.modeOf(ask, theirs, "status") != ignore {
		diffs = append(diffs, fmt.Sprintf("status %d, want %d", ours.Status, theirs.Status))
		comparable = false
	}
	names := map[string]bool{}
	for name := range theirs.Header {
		names[name] = true
	}
	for name := range ours.Header {
		names[name] = true
	}
	for _, name := range slices.Sorted(maps.Keys(names)) {
		want, got := theirs.Header.Values(name), ours.Header.Values(name)
		switch r.modeOf(ask, theirs, "header:"+strings.ToLower(name)) {
		case ignore:
			continue
		case present:
			want, got = presence(want), presence(got)
		case mayAdd:
			if len(want) == 0 || len(got) > 0 {
				continue
			}
		case set:
			want, got = headerItems(want), headerItems(got)
		}
		if !slices.Equal(want, got) {
			diffs = append(diffs, fmt.Sprintf("header %s %q, want %q", strings.ToLower(name), got, want))
		}
	}
	return diffs, comparable
}

// presence returns for each value whether it is not empty.
func presence(values []string) []string {
	out := make([]string, len(values))
	for i, v := range values {
		out[i] = strconv.FormatBool(v != "")
	}
	return out
}

// headerItems returns the comma-separated items of a header in lower case, sorted.
func headerItems(values []string) []string {
	var out []string
	for item := range strings.SplitSeq(strings.Join(values, ","), ",") {
		if item = strings.ToLower(strings.TrimSpace(item)); item != "" {
			out = append(out, item)
		}
	}
	slices.Sort(out)
	return out
}

// decode parses a text that is one JSON document.
func decode(text string) (document any, err error) {
	d := json.NewDecoder(strings.NewReader(text))
	d.UseNumber()
	if err := d.Decode(&document); err != nil {
		return nil, err
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return nil, errors.New("more than one document")
	}
	return document, nil
}

// canonical converts a document to a form that is the same for equal answers: lists are sorted and exceptions applied.
func (r Rules) canonical(ask Request, a Answer, path string, v any) any {
	switch r.modeOf(ask, a, path) {
	case ignore:
		return "(ignored)"
	case number:
		if n, ok := v.(json.Number); ok {
			if f, err := n.Float64(); err == nil {
				return "number " + strconv.FormatFloat(f, 'g', -1, 64)
			}
		}
	case present:
		return fmt.Sprintf("(given: %v)", v != nil && v != "")
	}
	switch x := v.(type) {
	case map[string]any:
		for k, child := range x {
			x[k] = r.canonical(ask, a, path+"."+k, child)
		}
	case []any:
		for i, child := range x {
			x[i] = r.canonical(ask, a, path+".*", child)
		}
		if ordered.MatchString(path) && r.modeOf(ask, a, path) != set {
			return byPosition(x)
		}
		slices.SortFunc(x, func(a, b any) int { return strings.Compare(toJSON(a), toJSON(b)) })
	case json.Number:
		// Some clients distinguish 1 from 1.0, but none 1.50 from 1.5.
		if f, err := x.Float64(); err == nil && strings.ContainsAny(x.String(), ".eE") {
			return "float " + strconv.FormatFloat(f, 'g', -1, 64)
		}
	}
	return v
}

// ordered matches the lists that the original always returns in the same order on SQLite. The API does not specify an
// order, but clients may depend on it.
var ordered = regexp.MustCompile(`^body\.(resource_providers|resource_providers\.\*\.links|resource_classes|links)$`)

// byPosition converts a list to an object with a member for each position, so that the order is compared.
func byPosition(list []any) map[string]any {
	out := make(map[string]any, len(list))
	for i, item := range list {
		out[fmt.Sprintf("#%05d", i)] = item
	}
	return out
}

func toJSON(v any) string {
	data, err := json.Marshal(v)
	if err != nil {
		return fmt.Sprint(v) // does not occur: v was decoded from JSON
	}
	return string(data)
}

// diffDocuments compares canonical documents without the items that only Berth may have.
func (r Rules) diffDocuments(ask Request, theirs Answer, diffs []string, want, got any) []string {
	w, ok := want.(map[string]any)
	g, same := got.(map[string]any)
	if !ok || !same {
		return diffValues(diffs, "body", want, got)
	}
	for key, child := range w {
		fewer, ok := child.([]any)
		list, same := g[key].([]any)
		if !ok || !same || r.modeOf(ask, theirs, "body."+key) != mayAdd {
			continue
		}
		g[key] = common(fewer, list)
	}
	return diffValues(diffs, "body", want, got)
}

// diffValues compares canonical values and appends the differences.
func diffValues(diffs []string, path string, want, got any) []string {
	switch w := want.(type) {
	case map[string]any:
		g, ok := got.(map[string]any)
		if !ok {
			break
		}
		for _, key := range slices.Sorted(maps.Keys(w)) {
			if other, ok := g[key]; ok {
				diffs = diffValues(diffs, path+"."+key, w[key], other)
			} else {
				diffs = append(diffs, fmt.Sprintf("%s.%s is missing, want %s", path, key, shorten(toJSON(w[key]))))
			}
		}
		for _, key := range slices.Sorted(maps.Keys(g)) {
			if _, ok := w[key]; !ok {
				diffs = append(diffs, fmt.Sprintf("%s.%s is unexpected: %s", path, key, shorten(toJSON(g[key]))))
			}
		}
		return diffs
	case []any:
		g, ok := got.([]any)
		if !ok {
			break
		}
		return diffLists(diffs, path, w, g)
	}
	if toJSON(want) != toJSON(got) {
		diffs = append(diffs, fmt.Sprintf("%s %s, want %s", path, shorten(toJSON(got)), shorten(toJSON(want))))
	}
	return diffs
}

// diffLists compares two sorted lists as multisets.
func diffLists(diffs []string, path string, want, got []any) []string {
	counts := map[string]int{}
	for _, v := range want {
		counts[toJSON(v)]++
	}
	var extra []any
	for _, v := range got {
		if key := toJSON(v); counts[key] > 0 {
			counts[key]--
		} else {
			extra = append(extra, v)
		}
	}
	var missing []any
	for _, v := range want {
		if key := toJSON(v); counts[key] > 0 {
			counts[key]--
			missing = append(missing, v)
		}
	}
	if len(missing) == 1 && len(extra) == 1 {
		return diffValues(diffs, path+".*", missing[0], extra[0])
	}
	for i, v := range missing {
		if i == 3 {
			diffs = append(diffs, fmt.Sprintf("%s: and %d more items are missing", path, len(missing)-3))
			break
		}
		diffs = append(diffs, fmt.Sprintf("%s: missing item %s", path, shorten(toJSON(v))))
	}
	for i, v := range extra {
		if i == 3 {
			diffs = append(diffs, fmt.Sprintf("%s: and %d more items are unexpected", path, len(extra)-3))
			break
		}
		diffs = append(diffs, fmt.Sprintf("%s: unexpected item %s", path, shorten(toJSON(v))))
	}
	return diffs
}
