package conformance

import (
	"strings"
	"testing"
)

func TestCandidatesWithWrongAmountsOfTheOriginal(t *testing.T) {
	rules, err := readRules()
	if err != nil {
		t.Fatal(err)
	}
	ours := strings.Replace(miscounted, `"VCPU": 2`, `"VCPU": 1`, 1)
	overlap := Request{Method: "GET", Target: "/allocation_candidates?resources=VCPU:1&resources1=VCPU:1"}
	if diffs := rules.Compare(overlap, newAnswer(200, miscounted), newAnswer(200, ours)); len(diffs) > 0 {
		t.Errorf("amounts that the original adds wrongly are reported: %q", diffs)
	}
	if diffs := rules.Compare(overlap, newAnswer(200, miscounted), newAnswer(200, miscounted)); len(diffs) == 0 {
		t.Error("wrong amounts of Berth are not reported")
	}
	if diffs := rules.Compare(overlap, newAnswer(200, miscounted),
		newAnswer(200, `{"allocation_requests": [], "provider_summaries": {"p": {}, "q": {}}}`)); len(diffs) == 0 {
		t.Error("a candidate that Berth does not return is not reported")
	}
	separate := Request{Method: "GET", Target: "/allocation_candidates?resources=VCPU:3&resources1=MEMORY_MB:1"}
	if diffs := rules.Compare(separate, newAnswer(200, miscounted), newAnswer(200, ours)); len(diffs) == 0 {
		t.Error("different amounts are not reported for a query without overlapping groups")
	}
}

const miscounted = `{"allocation_requests": [{"allocations": {"p": {"resources": {"VCPU": 2}}, ` +
	`"q": {"resources": {"VCPU": 1}}}}], "provider_summaries": {"p": {}, "q": {}}}`
