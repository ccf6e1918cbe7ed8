package main

import (
	"fmt"
	"strings"
	"testing"

	"github.com/openberth/berth/internal/testenv"
)

// The agent of a host that was forgotten while its guest ran does not change the allocation of the evacuated server.
func TestAgentOfAForgottenHost(t *testing.T) {
	testenv.Long(t)
	t.Parallel()
	f, files := twoHosts(t)
	s := f.server("s", "a-vf:1")
	old, fresh := *s.Host, other(*s.Host)
	f.agents[old].kill()
	delete(f.agents, old)
	if _, stderr, status := output(t, "--compute-url", f.compute.urls["compute"], "host", "down", old,
		"--force"); status != 0 {
		t.Fatal(stderr)
	}
	s = f.wantActiveOn(fresh, f.act(s, "ACTIVE", "evacuate", map[string]any{}))
	held := f.allocation(s)
	eventually(t, old+" is forgotten", func() (bool, error) {
		_, stderr, status := output(t, "--compute-url", f.compute.urls["compute"], "host", "forget", old)
		return status == 0, fmt.Errorf("%s", stderr)
	})
	f.startAgent(old, files[old])
	f.waitForCondition(old, "berth agent destroy "+s.ID)
	if now := f.allocation(s); now != held || !strings.HasPrefix(held, fresh) {
		t.Errorf("the allocation was %q, now %q", held, now)
	}
	if _, exists := f.guests(old)[s.ID]; !exists {
		t.Error("the guest on the forgotten host was destroyed without a command")
	}
	p := f.placement.placement()
	root, err := p.ProviderByName(t.Context(), old)
	if err != nil {
		t.Fatal(err)
	}
	tree, err := p.Tree(t.Context(), root.ID)
	if err != nil {
		t.Fatal(err)
	}
	for _, one := range tree.Providers {
		if who, err := p.ProviderAllocations(t.Context(), one.ID); err != nil || len(who) > 0 {
			t.Errorf("%s has allocations of %v (%v)", one.Name, who, err)
		}
	}
}
