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

// Compare says in what two answers to the same request differ; nothing is said of what an exception leaves open.
// Both must be free of names that each server made up itself.
func (r Rules) Compare(ask Ask, theirs, ours Answer) []string {
	switch r.how(ask, theirs, "answer") {
	case ignore:
		return nil
	case alive:
		if ours.Status >= http.StatusInternalServerError {
			return []string{fmt.Sprintf("status %d: a failure", ours.Status)}
		}
		return nil
	}
	diffs, alike := r.envelope(ask, theirs, ours)
	if !alike || ask.Method == http.MethodHead || r.how(ask, theirs, "body") == ignore {
		return diffs
	}
	want, wantErr := decode(theirs.Body)
	got, gotErr := decode(ours.Body)
	wantJSON, gotJSON := wantErr == nil, gotErr == nil
	switch {
	case wantJSON != gotJSON:
		diffs = append(diffs, fmt.Sprintf("body: JSON %v, should be %v", gotJSON, wantJSON))
	case !wantJSON:
		if theirs.Body != ours.Body {
			diffs = append(diffs, fmt.Sprintf("body %q, should be %q", shorten(ours.Body), shorten(theirs.Body)))
		}
	default:
		diffs = append(diffs, r.mend(ask, theirs, want, got)...)
		diffs = r.differ(ask, theirs, diffs, r.tidy(ask, theirs, "body", want), r.tidy(ask, theirs, "body", got))
	}
	return diffs
}

// envelope compares status and headers. alike says that the bodies are worth a look.
func (r Rules) envelope(ask Ask, theirs, ours Answer) (diffs []string, alike bool) {
	alike = true
	if theirs.Status != ours.Status && r.how(ask, theirs, "status") != ignore {
		diffs = append(diffs, fmt.Sprintf("status %d, should be %d", ours.Status, theirs.Status))
		alike = false
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
		switch r.how(ask, theirs, "header:"+strings.ToLower(name)) {
		case ignore:
			continue
		case present:
			want, got = marks(want), marks(got)
		case more:
			if len(want) == 0 || len(got) > 0 {
				continue
			}
		case set:
			want, got = items(want), items(got)
		}
		if !slices.Equal(want, got) {
			diffs = append(diffs, fmt.Sprintf("header %s %q, should be %q", strings.ToLower(name), got, want))
		}
	}
	return diffs, alike
}

func marks(values []string) []string {
	out := make([]string, len(values))
	for i, v := range values {
		out[i] = strconv.FormatBool(v != "")
	}
	return out
}

func items(values []string) []string {
	var out []string
	for item := range strings.SplitSeq(strings.Join(values, ","), ",") {
		if item = strings.ToLower(strings.TrimSpace(item)); item != "" {
			out = append(out, item)
		}
	}
	slices.Sort(out)
	return out
}

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

// tidy brings a document into the one form that equal answers have: lists sorted, exceptions applied.
func (r Rules) tidy(ask Ask, a Answer, path string, v any) any {
	switch r.how(ask, a, path) {
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
			x[k] = r.tidy(ask, a, path+"."+k, child)
		}
	case []any:
		for i, child := range x {
			x[i] = r.tidy(ask, a, path+".*", child)
		}
		if ordered.MatchString(path) {
			return numbered(x)
		}
		slices.SortFunc(x, func(a, b any) int { return strings.Compare(inJSON(a), inJSON(b)) })
	case json.Number:
		// 1 and 1.0 are not the same to every client, 1.50 and 1.5 are.
		if f, err := x.Float64(); err == nil && strings.ContainsAny(x.String(), ".eE") {
			return "float " + strconv.FormatFloat(f, 'g', -1, 64)
		}
	}
	return v
}

// ordered is the lists that the original always gives in one order, though the API promises none: clients may have come
// to depend on it.
var ordered = regexp.MustCompile(`^body\.(resource_providers|resource_providers\.\*\.links|resource_classes|links)$`)

// numbered makes a list an object, in which the place of each item tells.
func numbered(list []any) map[string]any {
	out := make(map[string]any, len(list))
	for i, item := range list {
		out[fmt.Sprintf("#%05d", i)] = item
	}
	return out
}

func inJSON(v any) string {
	data, err := json.Marshal(v)
	if err != nil {
		return fmt.Sprint(v) // cannot be: it came out of JSON
	}
	return string(data)
}

// differ compares canonical documents, after it has taken out what Berth may have more of.
func (r Rules) differ(ask Ask, theirs Answer, diffs []string, want, got any) []string {
	w, ok := want.(map[string]any)
	g, same := got.(map[string]any)
	if !ok || !same {
		return differ(diffs, "body", want, got)
	}
	for key, child := range w {
		fewer, ok := child.([]any)
		list, same := g[key].([]any)
		if !ok || !same || r.how(ask, theirs, "body."+key) != more {
			continue
		}
		g[key] = common(fewer, list)
	}
	return differ(diffs, "body", want, got)
}

// differ compares canonical documents and appends what differs.
func differ(diffs []string, path string, want, got any) []string {
	switch w := want.(type) {
	case map[string]any:
		g, ok := got.(map[string]any)
		if !ok {
			break
		}
		for _, key := range slices.Sorted(maps.Keys(w)) {
			if other, ok := g[key]; ok {
				diffs = differ(diffs, path+"."+key, w[key], other)
			} else {
				diffs = append(diffs, fmt.Sprintf("%s.%s missing, should be %s", path, key, shorten(inJSON(w[key]))))
			}
		}
		for _, key := range slices.Sorted(maps.Keys(g)) {
			if _, ok := w[key]; !ok {
				diffs = append(diffs, fmt.Sprintf("%s.%s should not be: %s", path, key, shorten(inJSON(g[key]))))
			}
		}
		return diffs
	case []any:
		g, ok := got.([]any)
		if !ok {
			break
		}
		return differLists(diffs, path, w, g)
	}
	if inJSON(want) != inJSON(got) {
		diffs = append(diffs, fmt.Sprintf("%s %s, should be %s", path, shorten(inJSON(got)), shorten(inJSON(want))))
	}
	return diffs
}

// differLists compares two sorted lists as multisets.
func differLists(diffs []string, path string, want, got []any) []string {
	counts := map[string]int{}
	for _, v := range want {
		counts[inJSON(v)]++
	}
	var extra []any
	for _, v := range got {
		if key := inJSON(v); counts[key] > 0 {
			counts[key]--
		} else {
			extra = append(extra, v)
		}
	}
	var missing []any
	for _, v := range want {
		if key := inJSON(v); counts[key] > 0 {
			counts[key]--
			missing = append(missing, v)
		}
	}
	if len(missing) == 1 && len(extra) == 1 {
		return differ(diffs, path+".*", missing[0], extra[0])
	}
	for i, v := range missing {
		if i == 3 {
			diffs = append(diffs, fmt.Sprintf("%s and %d more are missing", path, len(missing)-3))
			break
		}
		diffs = append(diffs, fmt.Sprintf("%s lacks %s", path, shorten(inJSON(v))))
	}
	for i, v := range extra {
		if i == 3 {
			diffs = append(diffs, fmt.Sprintf("%s and %d more are too much", path, len(extra)-3))
			break
		}
		diffs = append(diffs, fmt.Sprintf("%s has too much %s", path, shorten(inJSON(v))))
	}
	return diffs
}
