package metadata

import (
	"context"
	"net/netip"
	"sync"
	"time"

	"github.com/openberth/berth/agent/configdrive"
)

// The limits of what the requests of guests cost the host.
const (
	answerAge  = 2 * time.Second // how long what is known of a guest is used again
	maxAnswers = 1000
	warnEvery  = time.Minute // of a network
)

// answers keeps what is known of guests for answerAge, because a guest may repeat its requests without limit.
type answers struct {
	guest Guest
	now   func() time.Time

	mu       sync.Mutex
	kept     map[source]answer
	warnings map[string]warning // by network
}

// source is what a request comes from.
type source struct {
	network string
	address netip.Addr
}

type answer struct {
	at    time.Time
	guest configdrive.Server
	err   error
}

// warning is when a network was warned of last, and how many warnings were left out since.
type warning struct {
	at   time.Time
	left int
}

// of returns the guest that has an address in a network, at most answerAge old.
func (a *answers) of(ctx context.Context, network string, address netip.Addr) (configdrive.Server, error) {
	from := source{network, address}
	a.mu.Lock()
	one, has := a.kept[from]
	a.mu.Unlock()
	if has && a.now().Sub(one.at) < answerAge {
		return one.guest, one.err
	}
	one.guest, one.err = a.guest(ctx, network, address)
	if ctx.Err() != nil {
		return one.guest, one.err // the client has gone: the error may come from that
	}
	one.at = a.now()
	a.mu.Lock()
	defer a.mu.Unlock()
	for key, old := range a.kept {
		if one.at.Sub(old.at) >= answerAge {
			delete(a.kept, key)
		}
	}
	if a.kept == nil || len(a.kept) >= maxAnswers {
		a.kept = map[source]answer{}
	}
	a.kept[from] = one
	return one.guest, one.err
}

// mayWarn reports whether a warning about a network is to be logged now, and how many were not logged before it.
func (a *answers) mayWarn(network string) (log bool, before int) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.warnings == nil {
		a.warnings = map[string]warning{}
	}
	last, has := a.warnings[network]
	if now := a.now(); !has || now.Sub(last.at) >= warnEvery {
		a.warnings[network] = warning{at: now}
		return true, last.left
	}
	last.left++
	a.warnings[network] = last
	return false, 0
}
