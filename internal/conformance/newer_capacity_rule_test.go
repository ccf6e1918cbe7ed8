package conformance

import (
	"fmt"
	"testing"
)

// TestClaimsAboveTheCapacity checks that the original, which is older than the rule, refuses what Berth accepts, and
// that acceptsOverCapacity recognises the answers to such a claim.
func TestClaimsAboveTheCapacity(t *testing.T) {
	t.Parallel()
	pair := takePair(t)
	if err := pair.Reset(); err != nil {
		t.Fatal(err)
	}
	w := newWorld(pair, "above the capacity", fmt.Sprint("above", worldCount.Add(1)))
	play := func(method, target, body string) []Finding {
		t.Helper()
		w.findings = nil
		if err := w.step(Step{Method: method, Target: target, Body: body, HasBody: true, To: Latest}, Latest); err != nil {
			t.Fatal(err)
		}
		return w.findings
	}
	inventory := `{"resource_provider_generation": $rp.gen, "inventories": {"VCPU": {"total": %d}}}`
	claim := `{"allocations": {"$rp": {"resources": {"VCPU": %d}}}, "project_id": "p", "user_id": "u", ` +
		`"consumer_generation": $c.cgen, "consumer_type": "INSTANCE"}`
	for _, findings := range [][]Finding{
		play("POST", "/resource_providers", `{"name": "above", "uuid": "$rp"}`),
		play("PUT", "/resource_providers/$rp/inventories", fmt.Sprintf(inventory, 10)),
		play("PUT", "/allocations/$c", fmt.Sprintf(claim, 8)),
		play("PUT", "/resource_providers/$rp/inventories", fmt.Sprintf(inventory, 5)),
		play("PUT", "/allocations/$c", fmt.Sprintf(claim, 9)), // more: both refuse it
	} {
		if len(findings) > 0 {
			t.Fatal(findings)
		}
	}
	findings := play("PUT", "/allocations/$c", fmt.Sprintf(claim, 8))
	if len(findings) != 1 {
		t.Fatalf("the same again: %v", findings)
	}
	if newer, err := pair.acceptsOverCapacity(findings[0]); err != nil || !newer {
		t.Errorf("the same again: %v %v\n%s", newer, err, findings[0])
	}
	wrong := findings[0]
	wrong.Request.Target = "/resource_providers"
	if newer, err := pair.acceptsOverCapacity(wrong); err != nil || newer {
		t.Errorf("another request: %v %v", newer, err)
	}
}
