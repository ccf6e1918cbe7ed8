package network

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
		`{"NeutronError": {"type": "PortNotFound", "message": "Port p could not be found.", "detail": ""}}`: true,
	} {
		body = text
		_, err := c.Port(t.Context(), "p")
		if fault.Is(err, fault.NotFound) != known || fault.Is(err, fault.Unavailable) == known {
			t.Errorf("%q: a port is read: %v", text, err)
		}
		if err := c.DeletePort(t.Context(), "p"); (err == nil) != known {
			t.Errorf("%q: a port is deleted: %v", text, err)
		}
		if _, err = c.HostNetworks(t.Context(), "h"); !fault.Is(err, fault.NotFound) { // Neutron has no such path
			t.Errorf("%q: %v", text, err)
		}
	}
}
