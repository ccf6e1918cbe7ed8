package store_test

import (
	"testing"

	"github.com/openberth/berth/compute/lifecycle"
	"github.com/openberth/berth/compute/store"
)

// subscriptions checks which subscribers are notified of a change.
func subscriptions(t *testing.T, s *store.Store) {
	ctx := t.Context()
	notified := func(ch <-chan struct{}) bool {
		select {
		case <-ch:
			return true
		default:
			return false
		}
	}
	h, stop := s.Subscribe("h")
	h2, stop2 := s.Subscribe("h")
	g, stopG := s.Subscribe("g")
	defer stopG()
	must(t, s.Create(ctx, serverOn("a", "h")))
	must(t, s.Create(ctx, serverOn("b", "h")))
	if !notified(h) || notified(h) || !notified(h2) || notified(g) {
		t.Error("only the subscribers of h must be notified, once for two changes")
	}
	stop2()
	change := func(id string, next func(s *lifecycle.Server)) {
		_, err := s.Change(ctx, id, func(s lifecycle.Server) lifecycle.Server { next(&s); return s })
		must(t, err)
	}
	change("a", func(s *lifecycle.Server) { s.Devices = nil })
	if notified(h) {
		t.Error("notified of a change that is not in the assignments")
	}
	change("a", func(s *lifecycle.Server) { s.Host = "g" })
	if !notified(h) || !notified(g) || notified(h2) {
		t.Error("the subscribers of both hosts of a move must be notified, and no stopped one")
	}
	stop()
}
