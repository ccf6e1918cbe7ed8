package app

import (
	"fmt"
	"testing"

	"github.com/openberth/berth/bandwidth"
	"github.com/openberth/berth/internal/testenv"
)

// TestPolicyOfAPortChangesDuringAMove changes the policy of a server's port while its move waits for confirmation, and
// reverts the move. Reverting restores the allocation of the source as it was; afterwards it has what the policy says
// now, and the port the provider of the source.
func TestPolicyOfAPortChangesDuringAMove(t *testing.T) {
	testenv.Long(t)
	l := newMovesLab(t, "cmp2")
	for _, kbps := range []int{3000, 5000} {
		l.do("migrate", "VERIFY_RESIZE", "cmp2", map[string]any{"host": "cmp2"})
		if _, err := l.cloud.NetworkClient().UpdatePort(t.Context(), l.own.ID,
			map[string]any{"qos_policy_id": l.policy(kbps)}); err != nil {
			t.Fatal(err)
		}
		if got := l.allocation(l.server.ID)[bridgeOf("cmp2")][bandwidth.EgressBandwidth]; got != kbps {
			t.Errorf("%d on the destination, want %d", got, kbps)
		}
		l.do("revertResize", "ACTIVE", "cmp1", nil)
		l.until("the source has what the policy requests", func() bool {
			p, err := l.cloud.NetworkClient().Port(t.Context(), l.own.ID)
			on := ""
			for _, at := range p.Allocation() {
				on = at
			}
			return err == nil && p.Host == "cmp1" && on == string(bridgeOf("cmp1")) &&
				fmt.Sprint(l.used()) == fmt.Sprint(map[string]int{"cmp1": kbps}) && l.guaranteed(l.server.ID) == kbps
		})
	}
	l.delete(l.server.ID)
}
