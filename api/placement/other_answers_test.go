package placement

import (
	"io"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/openberth/berth/fault"
)

// Only the service itself says that an object does not exist. A proxy that has no service answers 404 too.
func TestNotFoundOfAProxyIsUnavailable(t *testing.T) {
	body := ""
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusNotFound)
		_, _ = io.WriteString(w, body)
	}))
	defer s.Close()
	c := NewClient(s.URL, nil, "token")
	for text, known := range map[string]bool{
		"default backend - 404": false, "": false, "{}": false,
		`{"errors": [{"status": 404, "title": "Not Found", "detail": "No allocations for consumer 'c'"}]}`: true,
	} {
		body = text
		err := c.DeleteAllocation(t.Context(), "c")
		if (err == nil) != known || !known && !fault.Is(err, fault.Unavailable) {
			t.Errorf("%q: an allocation is deleted: %v", text, err)
		}
		_, err = c.Inventories(t.Context(), "p")
		if fault.Is(err, fault.NotFound) != known || fault.Is(err, fault.Unavailable) == known {
			t.Errorf("%q: inventories are read: %v", text, err)
		}
		if _, err := c.Hosts(t.Context()); !fault.Is(err, fault.NotFound) { // another Placement has no such path
			t.Errorf("%q: %v", text, err)
		}
	}
}
