package operations

import (
	"testing"

	"github.com/openberth/berth/network/store"
)

// A binding profile marks a port as trusted in each form that compute accepts, so that the VF that compute selects for
// the port is set to trust, too. A trusted port has no spoof check.
func TestTrustedPorts(t *testing.T) {
	for value, want := range map[any]bool{true: true, "true": true, "True": true, "1": true, "t": true, false: false,
		"false": false, "0": false, "perhaps": false, nil: false, 1.0: false} {
		p := store.Port{PortSecurity: true, Binding: store.Binding{Profile: map[string]any{"trusted": value}}}
		got := hostPort(p, store.Network{}, store.Policy{}, "cloud.test")
		if got.Trusted != want || got.SpoofCheck == want {
			t.Errorf("trusted %v: %+v", value, got)
		}
	}
}
