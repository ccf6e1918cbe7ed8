package app

import (
	"context"
	"net/http/httptest"
	"strings"
	"testing"

	api "github.com/openberth/berth/api/placement"
	"github.com/openberth/berth/resource"
)

// TestAuditor lets a cloud with [audit] interval audit itself: an orphaned allocation is a condition of its host and in
// the metrics, and a cloud without the option makes no audits.
func TestAuditor(t *testing.T) {
	l := newLab(t)
	l.up("[audit]\ninterval = 1\n")
	defer l.down()
	a, err := l.cloud.Auditor()
	if err != nil || a == nil {
		t.Fatal(err)
	}
	orphan := api.ConsumerAllocation{Allocation: resource.Allocation{l.provider("cmp1").ID: {"VCPU": 1}}, Project: "p",
		User: "u", ConsumerType: "INSTANCE"}
	err = l.cloud.PlacementClient().PutAllocation(t.Context(), "11111111-1111-4111-8111-111111111111", orphan)
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() { a.Run(ctx); close(ended) }()
	defer func() { stop(); <-ended }()
	l.until("the difference is a condition of the host", func() bool {
		return strings.Contains(l.conditions(), "as a periodic audit has found: orphaned allocation")
	})
	w := httptest.NewRecorder()
	a.Handler().ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), "GET", "/metrics", nil))
	if !strings.Contains(w.Body.String(), `berth_audit_differences{rule="orphaned allocation"} 1`) {
		t.Error(w.Body)
	}
	l.cloud.Settings.AuditInterval = 0
	if a, err := l.cloud.Auditor(); a != nil || err != nil {
		t.Errorf("without [audit] interval: %v %v", a, err)
	}
}
