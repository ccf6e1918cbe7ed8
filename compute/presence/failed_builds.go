package presence

import (
	"maps"
	"sync"
	"time"

	"github.com/openberth/berth/compute/lifecycle"
)

// failureTime is how long a host on which a guest has failed is chosen after the other hosts.
const failureTime = 10 * time.Minute

// FailedBuilds are the hosts on which a guest has failed recently. What is wrong with such a host, for example a device
// that cannot be given to guests, often fails the next server too. Another process begins without failures: they change
// the order of hosts only.
type FailedBuilds struct {
	mu sync.Mutex
	at map[string]time.Time // by host; the last failure
}

// Record records a report of a guest of a server. At the source of a live migration the guest has not failed.
func (f *FailedBuilds) Record(event lifecycle.Event, server lifecycle.Server, now time.Time) {
	failed, is := event.(lifecycle.GuestFailed)
	if !is || server.Move != nil && server.Move.From.Host == failed.Host {
		return
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.at == nil {
		f.at = map[string]time.Time{}
	}
	f.at[failed.Host] = now
	maps.DeleteFunc(f.at, func(_ string, at time.Time) bool { return now.Sub(at) > failureTime })
}

// Recent returns the hosts on which a guest has failed within failureTime.
func (f *FailedBuilds) Recent(now time.Time) map[string]bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	hosts := map[string]bool{}
	for host, at := range f.at {
		if now.Sub(at) <= failureTime {
			hosts[host] = true
		}
	}
	return hosts
}
