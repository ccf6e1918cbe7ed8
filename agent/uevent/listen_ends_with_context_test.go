package uevent

import (
	"context"
	"testing"
	"time"

	"github.com/openberth/berth/internal/testenv"
)

// Listen ends with its context; where the kernel does not allow it, the fault is returned at once.
func TestListenEnds(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- Listen(ctx, func() {}) }()
	time.Sleep(20 * time.Millisecond)
	cancel()
	select {
	case err := <-ended:
		if err != nil {
			t.Logf("this machine does not let us listen: %v", err)
		}
	case <-time.After(testenv.Patience):
		t.Error("it never ended")
	}
}
