package app

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/openberth/berth/bandwidth"
	"github.com/openberth/berth/internal/testenv"
)

// TestPolicyOfAPortChangesDuringAMove changes the policy of a server's port while its move waits for confirmation, and
// reverts the move. Reverting restores the allocation of the source as it was; afterwards it has what the policy says
// now, and the port the provider of the source.
func TestPolicyOfAPortChangesDuringAMove(t *testing.T) {
	testenv.Long(t)
	t.Parallel()
	l := newMovesLab(t, "cmp2")
	for _, kbps := range []int{3000, 0, 5000} { // without a policy, the next one is the first that the record lacks
		policy, at, used := any(l.policy(max(kbps, 1))), string(bridgeOf("cmp1")), map[string]int{"cmp1": kbps}
		if kbps == 0 {
			policy, at, used = nil, "", map[string]int{}
		}
		l.do("migrate", "VERIFY_RESIZE", "cmp2", map[string]any{"host": "cmp2"})
		if _, err := l.cloud.NetworkClient().UpdatePort(t.Context(), l.own.ID,
			map[string]any{"qos_policy_id": policy}); err != nil {
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
			return err == nil && p.Host == "cmp1" && on == at &&
				fmt.Sprint(l.used()) == fmt.Sprint(used) && l.guaranteed(l.server.ID) == kbps
		})
	}
	l.delete(l.server.ID)
}

// TestLiveMigrationTakesTheNextHost migrates a server live without naming a host. The network service refuses the
// binding to the host that is tried first: the server goes to the next one, and the first one has nothing. If all are
// refused, the server stays where it is, with its allocation and its binding.
func TestLiveMigrationTakesTheNextHost(t *testing.T) {
	testenv.Long(t)
	t.Parallel()
	heal := newHealLab(t)
	l := newMovesLabOn(heal.portsLab, "cmp2", "cmp3")
	refused := map[string]bool{}
	refuse := func(most int) {
		clear(refused)
		heal.network.set(func(r *http.Request) bool {
			if r.Method != http.MethodPost || !strings.HasSuffix(r.URL.Path, "/bindings") {
				return false
			}
			body, err := io.ReadAll(r.Body)
			r.Body = io.NopCloser(bytes.NewReader(body))
			for _, host := range []string{"cmp2", "cmp3"} {
				if err == nil && bytes.Contains(body, []byte(host)) && (refused[host] || len(refused) < most) {
					refused[host] = true
					return true
				}
			}
			return false
		})
	}
	live := map[string]any{"host": nil, "block_migration": "auto"}
	refuse(2)
	l.do("os-migrateLive", "ACTIVE", "cmp1", live)
	l.until("both hosts have been tried", func() bool { return len(refused) == 2 })
	l.agrees("cmp1")
	refuse(1)
	if err := l.compute().Act(t.Context(), l.server.ID, "os-migrateLive", live); err != nil {
		t.Fatal(err)
	}
	at := ""
	l.until("the server has moved", func() bool {
		s, err := l.compute().Server(t.Context(), l.server.ID)
		if err == nil && s.Host != nil && s.TaskState == nil {
			at = *s.Host
		}
		return at == "cmp2" || at == "cmp3"
	})
	if len(refused) != 1 || refused[at] {
		t.Errorf("refused by %v, the server is on %s", refused, at)
	}
	l.agrees(at)
	l.delete(l.server.ID)
}
