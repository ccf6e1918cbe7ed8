package app

import (
	"log/slog"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/openberth/berth/internal/settings"
)

// TestAuditAtClose refuses an unknown caller. The closed service has recorded that.
func TestAuditAtClose(t *testing.T) {
	dir := t.TempDir()
	s := settings.Settings{}
	s.Audit.Driver, s.Audit.Directory = settings.AuditLog, dir
	service, err := OpenImage(t.TempDir(), s, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	w := httptest.NewRecorder()
	service.Handler.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), "POST", "/v2/images", nil))
	if err := service.Close(); err != nil || w.Code != 401 {
		t.Errorf("%v %d", err, w.Code)
	}
	files, err := filepath.Glob(filepath.Join(dir, "audit-*.jsonl"))
	if err != nil || len(files) != 1 {
		t.Fatalf("%v %v", files, err)
	}
	if text, err := os.ReadFile(files[0]); err != nil || !strings.Contains(string(text), `"name":"1 requests"`) {
		t.Errorf("%s %v", text, err)
	}
}
