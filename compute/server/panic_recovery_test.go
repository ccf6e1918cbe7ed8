package server

import (
	"context"
	"strings"
	"testing"

	"github.com/openberth/berth/compute/lifecycle"
)

// panickingConductor is a conductor with a bug.
type panickingConductor struct{ Conductor }

// Create panics.
func (panickingConductor) Create(context.Context, ...lifecycle.Server) ([]lifecycle.Server, error) {
	panic("a bug")
}

func TestPanicIsAnsweredWith500(t *testing.T) {
	h := startWith(t, func(o *Options) { o.Conductor = panickingConductor{o.Conductor} })
	h.flavor("small", nil)
	r := h.ask("POST", "/v2.1/servers", `{"server": {"name": "a", "flavorRef": "small"}}`)
	if r.status != 500 || r.dig("computeFault/code") != 500.0 {
		t.Errorf("%d %s", r.status, r.text)
	}
	if log := h.log.String(); !strings.Contains(log, "a bug") || !strings.Contains(log, "panic_recovery_test.go") {
		t.Errorf("the log has no cause or no location of the panic: %s", log)
	}
	if r := h.ask("GET", "/v2.1/servers", ""); r.status != 200 {
		t.Errorf("%d %s", r.status, r.text)
	}
}
