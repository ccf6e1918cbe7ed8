package conformance

import (
	"strings"
	"testing"
)

func TestCandidatesMissingInTheOriginal(t *testing.T) {
	rules, err := readRules()
	if err != nil {
		t.Fatal(err)
	}
	candidate := func(plain, other string) string {
		return `{"allocations": {"` + plain + `": {"resources": {"VCPU": 1}}, "` + other +
			`": {"resources": {"MEMORY_MB": 1}}}, "mappings": {"": ["` + plain + `"], "1": ["` + other + `"]}}`
	}
	doc := func(list ...string) Answer {
		return newAnswer(200,
			`{"allocation_requests": [`+strings.Join(list, ",")+
				`], "provider_summaries": {"s": {"traits": ["MISC_SHARES_VIA_AGGREGATE"]}, "p": {"traits": []}, `+
				`"q": {"traits": []}}}`)
	}
	ask := Request{Method: "GET", Target: "/allocation_candidates?resources=VCPU:1&resources1=MEMORY_MB:1"}
	both := doc(candidate("s", "p"), candidate("s", "q"))
	if diffs := rules.Compare(ask, doc(candidate("s", "p")), both); len(diffs) > 0 {
		t.Errorf("a candidate that the original loses is reported: %q", diffs)
	}
	if diffs := rules.Compare(ask, both, doc(candidate("s", "p"))); len(diffs) == 0 {
		t.Error("a candidate that Berth does not return is not reported")
	}
	if diffs := rules.Compare(ask, doc(candidate("s", "p")), doc(candidate("s", "p"), candidate("p", "q"))); len(diffs) ==
		0 {
		t.Error("a further candidate without a sharing provider is not reported")
	}
	alone := Request{Method: "GET", Target: "/allocation_candidates?resources=VCPU:1,MEMORY_MB:1"}
	if diffs := rules.Compare(alone, doc(candidate("s", "p")), both); len(diffs) == 0 {
		t.Error("a further candidate for a query of one group is not reported")
	}
}
