package difference

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"mime"
	"net/http"
	"net/url"
	"slices"
	"strings"
)

// Answer is the answer to a GET.
type Answer struct {
	Status int
	Header http.Header
	Body   []byte
}

// Result is the result of a comparison. Neither list has an item: the answers are equal.
type Result struct {
	Differences []string // what differs, as `<where>: <Berth's>, the original has <the original's>`
	Known       []string // the IDs of the known differences
}

// Options are what else decides about the comparison.
type Options struct {
	Prefix string // the path of the original's URL, which its links begin with
	Limit  int    // [placement] max_allocation_candidates; 0: none
}

// maxDifferences is the number of differences that one result lists.
const maxDifferences = 20

// Compare compares the answers to GET target.
func Compare(target string, theirs, ours Answer, options Options) Result {
	c := comparison{target: target, options: options}
	c.compare(theirs, ours)
	slices.Sort(c.known)
	return Result{Differences: c.differences, Known: slices.Compact(c.known)}
}

// comparison is the state of Compare.
type comparison struct {
	target      string
	options     Options
	differences []string
	known       []string
}

func (c *comparison) differ(where, format string, args ...any) {
	switch len(c.differences) {
	case maxDifferences:
		c.differences = append(c.differences, "and more")
	default:
		if len(c.differences) < maxDifferences {
			c.differences = append(c.differences, where+": "+fmt.Sprintf(format, args...))
		}
	}
}

func (c *comparison) compare(theirs, ours Answer) {
	const failed = http.StatusInternalServerError
	if theirs.Status == failed && ours.Status < failed {
		c.known = append(c.known, internalError)
		return
	}
	for _, k := range Table() {
		if k.target != nil && k.target.MatchString(c.target) && ours.Status < failed {
			c.known = append(c.known, k.ID)
			return
		}
	}
	if theirs.Status != ours.Status {
		c.differ("status", "%d, the original has %d", ours.Status, theirs.Status)
		return
	}
	c.headers(theirs, ours)
	if theirs.Status >= http.StatusBadRequest {
		c.errors(theirs, ours)
		return
	}
	want, wantErr := decode(theirs.Body)
	got, gotErr := decode(ours.Body)
	switch {
	case wantErr != nil && gotErr != nil:
		if !bytes.Equal(theirs.Body, ours.Body) {
			c.differ("body", "%q, the original has %q", shorten(string(ours.Body)), shorten(string(theirs.Body)))
		}
	case wantErr != nil || gotErr != nil:
		c.differ("body", "JSON: %t, the original's: %t", gotErr == nil, wantErr == nil)
	default:
		want, got = canonical(want, c.options.Prefix), canonical(got, "")
		c.versions(want, got)
		if !c.candidates(want, got) {
			c.values("body", want, got)
		}
	}
}

// versions removes the newest version from both version documents.
func (c *comparison) versions(want, got any) {
	newestOf := func(document any) (found []any) {
		m, _ := document.(map[string]any)
		list, _ := m["versions"].([]any)
		for _, v := range list {
			if one, is := v.(map[string]any); is {
				found = append(found, one["max_version"])
				delete(one, "max_version")
			}
		}
		return found
	}
	if path, _, _ := strings.Cut(c.target, "?"); path != "" && path != "/" {
		return
	}
	if toJSON(newestOf(want)) != toJSON(newestOf(got)) {
		c.known = append(c.known, newest)
	}
}

// headers compares the headers that have a meaning for clients.
func (c *comparison) headers(theirs, ours Answer) {
	for _, name := range []string{"Openstack-Api-Version", "Cache-Control"} {
		if want, got := theirs.Header.Get(name), ours.Header.Get(name); want != got {
			c.differ("header "+strings.ToLower(name), "%q, the original has %q", got, want)
		}
	}
	if want, got := theirs.Header.Get("Last-Modified") != "", ours.Header.Get("Last-Modified") != ""; want != got {
		c.differ("header last-modified", "given: %t, the original's: %t", got, want)
	}
	if theirs.Status < http.StatusBadRequest && len(theirs.Body)+len(ours.Body) > 0 {
		if want, got := media(theirs), media(ours); want != got {
			c.differ("header content-type", "%q, the original has %q", got, want)
		}
	}
}

func media(a Answer) string {
	name, _, err := mime.ParseMediaType(a.Header.Get("Content-Type"))
	if err != nil {
		return a.Header.Get("Content-Type")
	}
	return name
}

// errors compares the bodies of errors without their sentences.
func (c *comparison) errors(theirs, ours Answer) {
	type document struct {
		Errors []struct {
			Status int
			Title  string
			Code   string
			Detail string
		}
	}
	var want, got document
	if json.Unmarshal(theirs.Body, &want) != nil || len(want.Errors) == 0 {
		c.known = append(c.known, errorFormat)
		return
	}
	if err := json.Unmarshal(ours.Body, &got); err != nil {
		c.differ("body", "not an error document, the original's is")
		return
	}
	for _, list := range []*document{&want, &got} {
		for i := range list.Errors {
			if list.Errors[i].Detail != "" {
				list.Errors[i].Detail = "(given)"
			}
		}
	}
	if fmt.Sprint(want) != fmt.Sprint(got) {
		c.differ("body.errors", "%+v, the original has %+v", got.Errors, want.Errors)
	}
	if !bytes.Equal(theirs.Body, ours.Body) {
		c.known = append(c.known, errorText)
	}
}

// decode parses a text that is one JSON document.
func decode(text []byte) (document any, err error) {
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber()
	if err := d.Decode(&document); err != nil {
		return nil, err
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return nil, errors.New("more than one document")
	}
	return document, nil
}

// canonical converts a document to a form that is the same for equal answers: lists are sorted, numbers are compared by
// value, and links are without a prefix.
func canonical(v any, prefix string) any {
	switch x := v.(type) {
	case map[string]any:
		for k, child := range x {
			if text, is := child.(string); is && k == "href" && prefix != "" {
				x[k] = strings.TrimPrefix(text, prefix)
				continue
			}
			x[k] = canonical(child, prefix)
		}
	case []any:
		for i, child := range x {
			x[i] = canonical(child, prefix)
		}
		sortByJSON(x)
	case json.Number:
		if strings.ContainsAny(x.String(), ".eE") {
			if f, err := x.Float64(); err == nil {
				return f
			}
		}
		if n, err := x.Int64(); err == nil {
			return float64(n)
		}
	}
	return v
}

// sortByJSON sorts values by their JSON. It encodes each value once.
func sortByJSON(list []any) {
	type entry struct {
		key   string
		value any
	}
	entries := make([]entry, len(list))
	for i, v := range list {
		entries[i] = entry{toJSON(v), v}
	}
	slices.SortFunc(entries, func(a, b entry) int { return strings.Compare(a.key, b.key) })
	for i, e := range entries {
		list[i] = e.value
	}
}

func toJSON(v any) string {
	data, err := json.Marshal(v)
	if err != nil {
		return fmt.Sprint(v) // does not occur: v was decoded from JSON
	}
	return string(data)
}

// shorten returns at most the first 300 bytes of a text.
func shorten(text string) string {
	if len(text) > 300 {
		return strings.ToValidUTF8(text[:300], "") + "…"
	}
	return text
}

// values compares two canonical values.
func (c *comparison) values(path string, want, got any) {
	switch w := want.(type) {
	case map[string]any:
		if g, ok := got.(map[string]any); ok {
			c.objects(path, w, g)
			return
		}
	case []any:
		if g, ok := got.([]any); ok {
			c.lists(path, w, g)
			return
		}
	}
	if a, b := toJSON(want), toJSON(got); a != b {
		c.differ(path, "%s, the original has %s", shorten(b), shorten(a))
	}
}

func (c *comparison) objects(path string, want, got map[string]any) {
	for _, key := range slices.Sorted(maps.Keys(want)) {
		if other, ok := got[key]; ok {
			c.values(path+"."+key, want[key], other)
		} else {
			c.differ(path+"."+key, "missing, the original has %s", shorten(toJSON(want[key])))
		}
	}
	for _, key := range slices.Sorted(maps.Keys(got)) {
		if _, ok := want[key]; !ok {
			c.differ(path+"."+key, "%s, the original has nothing", shorten(toJSON(got[key])))
		}
	}
}

// lists compares two lists as multisets.
func (c *comparison) lists(path string, want, got []any) {
	missing, extra := without(want, got), without(got, want)
	if len(missing) == 1 && len(extra) == 1 {
		c.values(path+".*", missing[0], extra[0])
		return
	}
	for _, v := range missing {
		c.differ(path, "an item is missing: %s", shorten(toJSON(v)))
	}
	for _, v := range extra {
		c.differ(path, "an item that the original does not have: %s", shorten(toJSON(v)))
	}
}

// without returns the items of a list that another list has not, or less often.
func without(list, other []any) (rest []any) {
	counts := map[string]int{}
	for _, v := range other {
		counts[toJSON(v)]++
	}
	for _, v := range list {
		key := toJSON(v)
		if counts[key]--; counts[key] < 0 {
			rest = append(rest, v)
		}
	}
	return rest
}

// queryOf returns the parameters of a target, and nil if they cannot be parsed.
func queryOf(target string) url.Values {
	_, query, _ := strings.Cut(target, "?")
	values, err := url.ParseQuery(query)
	if err != nil {
		return nil
	}
	return values
}
