package store

import (
	"fmt"
	"sync"
	"testing"

	"github.com/openberth/berth/fault"
)

// TestHostsAreBoundAtTheSameTime checks that the binding of one host does not wait for that of another, so that the
// database commits them together, and that one account of several wins a host.
func TestHostsAreBoundAtTheSameTime(t *testing.T) {
	s, _ := openFile(t)
	unlock := s.accounts.hosts.lock("busy")
	var all sync.WaitGroup
	var mu sync.Mutex
	bound := map[string]map[string]bool{}
	for n := range 60 {
		all.Go(func() {
			host := fmt.Sprint("h", n%20)
			b, err := s.BindFreeHost(t.Context(), HostAccount{Host: host, Account: fmt.Sprint("u", n), Strategy: "x"})
			mu.Lock()
			defer mu.Unlock()
			if err != nil {
				t.Error(err)
			}
			if bound[host] == nil {
				bound[host] = map[string]bool{}
			}
			bound[host][b.Account] = true
		})
	}
	all.Wait()
	unlock()
	stored, err := s.HostAccounts(t.Context())
	if err != nil || len(stored) != 20 {
		t.Errorf("%v %v", stored, err)
	}
	for host, accounts := range bound {
		if len(accounts) != 1 || !accounts[stored[host].Account] {
			t.Errorf("%s was bound to %v, stored %v", host, accounts, stored[host])
		}
	}
	if err := s.UnbindHost(t.Context(), "busy"); !fault.Is(err, fault.NotFound) {
		t.Errorf("%v", err)
	}
}
