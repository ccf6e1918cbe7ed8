package consoles

import (
	"sync"
	"time"

	"github.com/google/uuid"

	"github.com/openberth/berth/fault"
)

// Tokens are the tokens of the URLs of consoles. Each opens one console of one server once. They are not stored: this
// process has the streams of all agents, and after it has ended its users request other URLs.
type Tokens struct {
	mu  sync.Mutex
	all map[string]token
}

// The most tokens that may be used, of one server and of the servers of one project. A user needs one at a time; a
// program that requests more keeps the memory for others.
const (
	maxServerTokens  = 20
	maxProjectTokens = 500
)

// token is the console that a token opens.
type token struct {
	server  string
	project string // of the server
	kind    kind
	expires time.Time
}

// issue returns a new token, and forgets those that have expired. It returns fault.Forbidden if the server or its
// project has the most tokens already.
func (t *Tokens) issue(of token, now time.Time) (string, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.all == nil {
		t.all = map[string]token{}
	}
	ofServer, ofProject := 0, 0
	for id, one := range t.all {
		switch {
		case !now.Before(one.expires):
			delete(t.all, id)
			continue
		case one.server == of.server:
			ofServer++
		}
		if one.project == of.project {
			ofProject++
		}
	}
	if ofServer >= maxServerTokens || ofProject >= maxProjectTokens {
		return "", fault.New(fault.Forbidden, "Too many console URLs of instance %s or its project are not used yet (%d of "+
			"%d, %d of %d); use one, or wait until they expire", of.server, ofServer, maxServerTokens, ofProject,
			maxProjectTokens)
	}
	id := uuid.NewString() // 122 bits of crypto/rand
	t.all[id] = of
	return id, nil
}

// find returns the console of a token that is not used and has not expired. With use it cannot be found again.
func (t *Tokens) find(id string, use bool, now time.Time) (found token, ok bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	found, ok = t.all[id]
	if use {
		delete(t.all, id)
	}
	return found, ok && now.Before(found.expires)
}
