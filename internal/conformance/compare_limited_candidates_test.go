package conformance

import (
	"strings"
	"testing"
)

func TestLimitedCandidates(t *testing.T) {
	doc := func(ids ...string) Answer {
		var requests, summaries []string
		for _, id := range ids {
			requests = append(requests, `{"allocations": {"`+id+`": {"resources": {"VCPU": 1}}}}`)
			summaries = append(summaries, `"`+id+`": {"resources": {}}`)
		}
		return newAnswer(200,
			`{"allocation_requests": [`+strings.Join(requests, ",")+`], "provider_summaries": {`+strings.Join(summaries, ",")+
				`}}`)
	}
	roots := map[string]string{"a": "a", "b": "b", "c": "c"}
	ask := Request{Method: "GET", Target: "/allocation_candidates?resources=VCPU:1"}
	for _, c := range []struct {
		name string
		ours Answer
		want string
	}{
		{"another candidate", doc("b"), ""},
		{"too many candidates", doc("a", "b"), "2 items, want 1"},
		{"no candidate", doc(), "0 items, want 1"},
		{"an unknown candidate", doc("d"), "not in the original's unlimited answer"},
		{"a further summary", newAnswer(200, strings.Replace(doc("b").Body, `"provider_summaries": {`,
			`"provider_summaries": {"c": {"resources": {}}, `, 1)), "want one of"},
	} {
		got := strings.Join(Rules(nil).limitedDiffs(ask, roots, doc("a", "b", "c"), doc("a"), c.ours), "; ")
		if (c.want == "") != (got == "") || !strings.Contains(got, c.want) {
			t.Errorf("%s: %q, want %q", c.name, got, c.want)
		}
	}
}
