package store

import "sync"

// hostLocks are locks by the name of a host. The zero value is ready for use.
type hostLocks struct{ byHost sync.Map } // of *sync.Mutex

// lock waits for the lock of a host.
func (l *hostLocks) lock(host string) (unlock func()) {
	mu, _ := l.byHost.LoadOrStore(host, &sync.Mutex{})
	mu.(*sync.Mutex).Lock()
	return mu.(*sync.Mutex).Unlock
}
