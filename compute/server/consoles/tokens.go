package consoles

import (
	"sync"
	"time"

	"github.com/google/uuid"
)

// Tokens are the tokens of the URLs of consoles. Each opens one console of one server once. They are not stored: this
// process has the streams of all agents, and after it has ended its users request other URLs.
type Tokens struct {
	mu  sync.Mutex
	all map[string]token
}

// token is the console that a token opens.
type token struct {
	server  string
	kind    kind
	expires time.Time
}

// issue returns a new token, and forgets those that have expired.
func (t *Tokens) issue(of token, now time.Time) string {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.all == nil {
		t.all = map[string]token{}
	}
	for id, one := range t.all {
		if !now.Before(one.expires) {
			delete(t.all, id)
		}
	}
	id := uuid.NewString() // 122 bits of crypto/rand
	t.all[id] = of
	return id
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
