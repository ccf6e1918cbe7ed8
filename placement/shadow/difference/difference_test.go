package difference

import (
	"fmt"
	"net/http"
	"os"
	"slices"
	"strings"
	"testing"
)

// TestTableIsDocumented compares the table of known differences with the document for operators.
func TestTableIsDocumented(t *testing.T) {
	text, err := os.ReadFile("../../../docs/moving-placement-to-berth.md")
	if err != nil || !strings.Contains(string(text), Markdown()) {
		t.Errorf("docs/moving-placement-to-berth.md does not have this table (%v):\n%s", err, Markdown())
	}
}

func answer(status int, body string) Answer {
	h := http.Header{"Content-Type": {"application/json"}}
	return Answer{Status: status, Header: h, Body: []byte(body)}
}

// one returns a candidate of two providers: the first serves the unsuffixed group, the second group 1.
func one(plain, other string, amount int) string {
	return fmt.Sprintf(`{"allocations": {"%[1]s": {"resources": {"DISK_GB": 1}}, `+
		`"%[2]s": {"resources": {"VCPU": %[3]d}}}, `+
		`"mappings": {"": ["%[1]s"], "1": ["%[2]s"]}}`, plain, other, amount)
}

func candidateList(list ...string) string {
	return `{"allocation_requests": [` + strings.Join(list, ",") + `], "provider_summaries": {` +
		`"share": {"resources": {}, "traits": ["MISC_SHARES_VIA_AGGREGATE"]}, "a": {"resources": {}, "traits": []}}}`
}

// TestKnownDifferences has a pair of answers for each known difference, which is known, and one that is like it and is
// not.
func TestKnownDifferences(t *testing.T) {
	html := answer(404, "<html>")
	html.Header = http.Header{"Content-Type": {"text/html"}}
	failure := func(code, detail string) string {
		return fmt.Sprintf(`{"errors": [{"status": 409, "title": "Conflict", "code": %q, "detail": %q}]}`, code, detail)
	}
	const groups = "/allocation_candidates?resources=DISK_GB:1&resources1=VCPU:2"
	for _, c := range []struct {
		known, target string
		theirs, ours  Answer
		same          bool
	}{
		{"", "/traits", answer(200, `{"traits": ["A", "B"]}`), answer(200, `{"traits": ["B", "A"]}`), true},
		{"", "/traits", answer(200, `{"traits": ["A", "B"]}`), answer(200, `{"traits": ["B", "B"]}`), false},
		{"", "/a", answer(200, `{"r": 1.0, "n": 2}`), answer(200, `{"r": 1, "n": 2}`), true},
		{"", "/a", answer(200, `{"r": 1.5}`), answer(200, `{"r": 1}`), false},
		{"", "/a", answer(200, `{"r": "1"}`), answer(200, `{"r": 1}`), false},
		{"", "/a", answer(200, `{"r": null}`), answer(200, `{}`), false},
		{errorText, "/a", answer(409, failure("x", "one")), answer(409, failure("x", "two")), true},
		{errorText, "/a", answer(409, failure("x", "one")), answer(409, failure("y", "two")), false},
		{errorFormat, "/a", html, answer(404, failure("x", "one")), true},
		{errorFormat, "/a", html, answer(400, failure("x", "one")), false},
		{internalError, "/usages", answer(500, "{}"), answer(200, "{}"), true},
		{internalError, "/usages", answer(503, "{}"), answer(200, "{}"), false},
		{internalError, "/usages", answer(200, "{}"), answer(500, "{}"), false},
		{newest, "/", answer(200, `{"versions": [{"id": "v1.0", "max_version": "1.36"}]}`),
			answer(200, `{"versions": [{"id": "v1.0", "max_version": "1.39"}]}`), true},
		{newest, "/", answer(200, `{"versions": [{"id": "v1.0", "max_version": "1.36"}]}`),
			answer(200, `{"versions": [{"id": "v1.1", "max_version": "1.39"}]}`), false},
		{ownPaths, "/berth/v1/explain?a=b", answer(404, "{}"), answer(200, "{}"), true},
		{providerForm, "/resource_providers?uuid=0f0e0d0c0b0a09080706050403020100", answer(200, "{}"), answer(400, "{}"),
			true},
		{providerForm, "/resource_providers?uuid=0f0e0d0c", answer(200, "{}"), answer(400, "{}"), false},
		{lostCandidate, groups, answer(200, candidateList(one("share", "a", 2))),
			answer(200, candidateList(one("share", "a", 2), one("share", "b", 2))), true},
		{lostCandidate, groups, answer(200, candidateList(one("share", "a", 2))),
			answer(200, candidateList(one("share", "a", 2), one("a", "b", 2))), false},
		{lostCandidate, groups, answer(200, candidateList(one("share", "a", 2), one("share", "b", 2))),
			answer(200, candidateList(one("share", "a", 2))), false},
		{wrongAmounts, groups + "&resources2=DISK_GB:2", answer(200, candidateList(one("share", "a", 3))),
			answer(200, candidateList(one("share", "a", 2))), false},
		{wrongAmounts, "/allocation_candidates?resources=VCPU:1,DISK_GB:1&resources1=VCPU:1",
			answer(200, candidateList(one("share", "a", 3))), answer(200, candidateList(one("share", "a", 2))), true},
		{limited, groups + "&limit=1", answer(200, candidateList(one("share", "a", 2))),
			answer(200, candidateList(one("share", "b", 2))), true},
		{limited, "/allocation_candidates?resources=VCPU:2&limit=2", answer(200, candidateList(one("a", "a", 2),
			one("b", "b", 2))), answer(200, candidateList(one("a", "a", 2))), false},
		{limited, "/allocation_candidates?resources=VCPU:2&limit=3", answer(200, candidateList(one("a", "a", 2))),
			answer(200, candidateList(one("b", "b", 2))), false},
	} {
		got := Compare(c.target, c.theirs, c.ours, Options{})
		if same := len(got.Differences) == 0; same != c.same {
			t.Errorf("%s %s: %q", c.known, c.target, got.Differences)
		}
		if c.same && c.known != "" && !slices.Contains(got.Known, c.known) || c.same && c.known == "" && got.Known != nil {
			t.Errorf("%s %s: known are %q", c.known, c.target, got.Known)
		}
	}
}

// TestConfiguredLimit compares answers that [placement] max_allocation_candidates limits.
func TestConfiguredLimit(t *testing.T) {
	in := func(id string) Answer {
		return answer(200, fmt.Sprintf(`{"allocation_requests": [%s], `+
			`"provider_summaries": {%q: {"root_provider_uuid": %q}}}`, one(id, id, 2), id, id))
	}
	a, b := in("a"), in("b")
	const target = "/allocation_candidates?resources=VCPU:2"
	if got := Compare(target, a, b, Options{Limit: 1}); got.Differences != nil || len(Trees(target, 1, a, b, 1)) != 2 {
		t.Errorf("%+v", got)
	}
	if got := Compare(target, a, b, Options{}); got.Differences == nil || Trees(target, 0, a, b, 1) != nil {
		t.Errorf("%+v", got)
	}
}

// FuzzCompare compares answers of any form: it must not panic, and an answer equals itself.
func FuzzCompare(f *testing.F) {
	f.Add("/allocation_candidates?resources=VCPU:1&resources1=VCPU:1&limit=1", candidateList(one("share", "a", 2)), "{}")
	f.Add("/", `{"versions": [1, {"max_version": []}]}`, `{"versions": {}}`)
	f.Add("/allocation_candidates?%zz", `{"allocation_requests": [1], "provider_summaries": {"a": 1}}`, "[]")
	f.Fuzz(func(t *testing.T, target, a, b string) {
		Compare(target, answer(200, a), answer(200, b), Options{Prefix: "/x", Limit: 1})
		Trees(target, 1, answer(200, a), answer(200, b), 2)
		overlapping := overlaps(queryOf(target)) // Berth's amounts must then be those of the request
		if got := Compare(target, answer(200, a), answer(200, a), Options{}); got.Differences != nil && !overlapping {
			t.Errorf("%q differs from itself: %q", a, got.Differences)
		}
	})
}
