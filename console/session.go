package console

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"log/slog"
	"sync"
	"time"

	"github.com/openberth/berth/fleet/read"
)

// The limits of sessions.
const (
	idleTime    = 2 * time.Hour    // without a request
	keepTime    = 10 * time.Minute // without a request, after which what was read for a session is forgotten
	sweepTime   = time.Minute      // between two looks for sessions that have ended
	maxSessions = 64               // of all users
	maxOfUser   = 8                // of one user; the one that was used least recently ends for a new one
	maxStreams  = 8                // of pages that are live, for each session
)

// session is a user who has signed in.
type session struct {
	user    string
	owner   Credentials // whose session it is, without the password
	form    string      // the token that each form of the session has
	clients Clients
	ends    time.Time
	read    reading
	tables  tables
	streams chan struct{}

	audit    auditing
	counting chan struct{} // has a place for one count of what fits, which takes long in a large cloud

	ctx context.Context // ends with the session
	end context.CancelFunc

	used time.Time // guarded by sessions.mu
}

// sessions are the sessions of all users, by the hash of the id in the cookie.
type sessions struct {
	mu   sync.Mutex
	now  func() time.Time
	byID map[[sha256.Size]byte]*session

	reads sync.WaitGroup // the reads of all sessions
}

// work is what sessions do in the background.
type work struct {
	read readFunc
	look lookFunc
	wait time.Duration // between the two looks of an audit
	log  *slog.Logger
}

// add begins a session of a user that pages show as name, and returns the id for its cookie.
func (s *sessions) add(ctx context.Context, name string, user Credentials, clients Clients, ends time.Time,
	do work) string {
	clients.kept = &read.Copy{}
	one := &session{user: name, owner: user.owner(), form: rand.Text(), clients: clients, ends: ends,
		read:  reading{read: do.read, group: &s.reads, kept: clients.kept},
		audit: auditing{work: do, group: &s.reads}, streams: make(chan struct{}, maxStreams),
		counting: make(chan struct{}, 1)}
	one.ctx, one.end = context.WithCancel(ctx)
	id := rand.Text()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.sweepLocked()
	s.makeRoom(one.owner)
	one.used = s.now()
	s.byID[sha256.Sum256([]byte(id))] = one
	return id
}

// get returns the session with an id; nil: there is none, or it has ended. by: the user has requested a page, and not
// the script of a page that stays open.
func (s *sessions) get(id string, by bool) *session {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.sweepLocked()
	one := s.byID[sha256.Sum256([]byte(id))]
	if one != nil && by {
		one.used = s.now()
	}
	return one
}

// remove ends a session.
func (s *sessions) remove(one *session) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for id, other := range s.byID {
		if other == one {
			one.end()
			delete(s.byID, id)
		}
	}
}

// run sweeps until ctx ends: sessions also end while no request comes, and with them their streams of events.
func (s *sessions) run(ctx context.Context) {
	tick := time.NewTicker(sweepTime)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			s.sweep()
		}
	}
}

// sweep is sweepLocked with the lock.
func (s *sessions) sweep() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.sweepLocked()
}

// sweepLocked ends the sessions whose time is over, and forgets what was read for those that are not used.
func (s *sessions) sweepLocked() {
	now := s.now()
	for id, one := range s.byID {
		idle := now.Sub(one.used)
		if now.After(one.ends) || idle > idleTime {
			one.end()
			delete(s.byID, id)
		} else if idle > keepTime {
			one.read.forget()
			one.tables.forget()
		}
	}
}

// makeRoom ends a session if there is no room for one more of an owner: one of that owner, or one of those who have
// most. So an account that signs in again and again ends no session of others before its own.
func (s *sessions) makeRoom(owner Credentials) {
	count, most := map[Credentials]int{}, 0
	for _, one := range s.byID {
		count[one.owner]++
		most = max(most, count[one.owner])
	}
	switch {
	case count[owner] >= maxOfUser:
		s.endOldest(func(one *session) bool { return one.owner == owner })
	case len(s.byID) >= maxSessions:
		s.endOldest(func(one *session) bool { return count[one.owner] == most })
	}
}

// endOldest ends the session that was used least recently, of some.
func (s *sessions) endOldest(of func(*session) bool) {
	var oldest [sha256.Size]byte
	var found *session
	for id, one := range s.byID {
		if of(one) && (found == nil || one.used.Before(found.used)) {
			oldest, found = id, one
		}
	}
	if found != nil {
		found.end()
		delete(s.byID, oldest)
	}
}

// endAll ends all sessions.
func (s *sessions) endAll() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for id, one := range s.byID {
		one.end()
		delete(s.byID, id)
	}
}

// clock returns a function that returns the time.
func clock(now func() time.Time) func() time.Time {
	if now == nil {
		return time.Now
	}
	return now
}
