package settings

import (
	"testing"

	"github.com/openberth/berth/internal/httpserver"
)

// By default one address has half of the connections, but loopback addresses, and any address behind a proxy, have all;
// the option overrides both.
func TestConnectionsPerAddress(t *testing.T) {
	for text, want := range map[string]httpserver.ConnLimits{
		"max_connections = 100\n": {Total: 100,
			PerAddress: 50, PerLoopback: 0},
		"max_connections = 1\n": {Total: 1, PerAddress: 1, PerLoopback: 0},
		"max_connections = 100\nmax_connections_per_address = 20\n": {Total: 100,
			PerAddress: 20, PerLoopback: 20},
		"max_connections = 100\nmax_connections_per_address =\n": {Total: 100, PerAddress: 50, PerLoopback: 50},
		"max_connections = 100\nmax_connections_per_address = 0\n": {Total: 100,
			PerAddress: 0, PerLoopback: 0},
		"max_connections = 100\n[oslo_middleware]\nenable_proxy_headers_parsing = true\n": {Total: 100,
			PerAddress: 0, PerLoopback: 0},
		"max_connections_per_address = 5\n[oslo_middleware]\nenable_proxy_headers_parsing = true\n": {Total: 0, PerAddress: 5,
			PerLoopback: 5},
	} {
		s, _, err := readText(t, "[berth]\n"+text)
		if want.Total == 0 {
			s.Connections.Total = 0 // depends on the limit of open files
		}
		if err != nil || s.Connections != want {
			t.Errorf("%s: %+v %v, want %+v", text, s.Connections, err, want)
		}
	}
}
