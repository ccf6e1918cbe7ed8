package console

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"slices"
	"sync"
	"time"
)

// The limits of sessions.
const (
	idleTime    = 2 * time.Hour    // without a request
	keepTime    = 10 * time.Minute // without a request, after which what was read for a session is forgotten
	maxSessions = 64               // of all users; the one that was used least recently ends for a new one
	maxStreams  = 8                // of events, for each session
)

// session is a user who has signed in.
type session struct {
	user    string
	form    string // the token that each form of the session has
	clients Clients
	ends    time.Time
	read    reading
	streams chan struct{}

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

// add begins a session and returns the id for its cookie.
func (s *sessions) add(ctx context.Context, user string, clients Clients, ends time.Time,
	read readFunc) string {
	one := &session{user: user, form: rand.Text(), clients: clients, ends: ends,
		read: reading{read: read, group: &s.reads}, streams: make(chan struct{}, maxStreams)}
	one.ctx, one.end = context.WithCancel(ctx)
	id := rand.Text()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.sweep()
	for len(s.byID) >= maxSessions {
		s.endOldest()
	}
	one.used = s.now()
	s.byID[sha256.Sum256([]byte(id))] = one
	return id
}

// get returns the session with an id; nil: there is none, or it has ended.
func (s *sessions) get(id string) *session {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.sweep()
	one := s.byID[sha256.Sum256([]byte(id))]
	if one != nil {
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

// sweep ends the sessions whose time is over, and forgets what was read for those that are not used.
func (s *sessions) sweep() {
	now := s.now()
	for id, one := range s.byID {
		idle := now.Sub(one.used)
		if now.After(one.ends) || idle > idleTime {
			one.end()
			delete(s.byID, id)
		} else if idle > keepTime {
			one.read.forget()
		}
	}
}

// endOldest ends the session that was used least recently.
func (s *sessions) endOldest() {
	ids := make([][sha256.Size]byte, 0, len(s.byID))
	for id := range s.byID {
		ids = append(ids, id)
	}
	oldest := slices.MinFunc(ids, func(a, b [sha256.Size]byte) int {
		return s.byID[a].used.Compare(s.byID[b].used)
	})
	s.byID[oldest].end()
	delete(s.byID, oldest)
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
