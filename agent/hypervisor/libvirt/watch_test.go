package libvirt

import (
	"testing"
	"time"

	"github.com/openberth/berth/internal/libvirtd"
	"github.com/openberth/berth/internal/testenv"
)

// Watch reports a change after the connection, and again when libvirt has connected to its guests.
func TestWatchWithoutEvents(t *testing.T) {
	t.Parallel()
	daemon := libvirtd.Start(t)
	d := open(t, daemon, daemon.GuestDir(t))
	changes := make(chan struct{}, 16)
	go d.Watch(t.Context(), func() { changes <- struct{}{} })
	for n := range 2 {
		select {
		case <-changes:
		case <-time.After(testenv.Patience):
			t.Fatalf("%d changes", n)
		}
	}
}
