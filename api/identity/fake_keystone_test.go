package identity

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"
)

type doc = map[string]any

// fake is a Keystone with some tokens that counts its requests.
type fake struct {
	*httptest.Server
	mu          sync.Mutex
	now         time.Time
	password    string
	tokens      map[string]*issued
	signIns     int
	validations map[string]int // by token
	bodies      []string       // of sign-ins
	status      int            // of every response, if not 0
	life        time.Duration  // lifetime of the service's own tokens
	catalog     any
	gate        chan struct{} // validations wait until it is closed; nil: no waiting
}

// issued is a token.
type issued struct {
	doc     doc
	expires time.Time
}

func newFake(t *testing.T) *fake {
	f := &fake{now: time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC), password: "secret", tokens: map[string]*issued{},
		validations: map[string]int{}, life: time.Hour}
	f.Server = httptest.NewServer(f)
	t.Cleanup(f.Close)
	return f
}

// issue creates a token of a user in a project.
func (f *fake) issue(token, user string, life time.Duration, roles ...string) doc {
	f.mu.Lock()
	defer f.mu.Unlock()
	var list []doc
	for _, role := range roles {
		list = append(list, doc{"id": "id-" + role, "name": role})
	}
	expires := f.now.Add(life)
	d := doc{"user": doc{"id": user, "name": "name-" + user, "domain": doc{"id": "ud", "name": "UD"}}, "roles": list,
		"expires_at": expires.Format("2006-01-02T15:04:05.000000Z"),
		"project":    doc{"id": "p1", "name": "lab", "domain": doc{"id": "pd", "name": "PD"}}}
	f.tokens[token] = &issued{d, expires}
	return d
}

// do changes the fake under its lock.
func (f *fake) do(change func()) {
	f.mu.Lock()
	defer f.mu.Unlock()
	change()
}

func (f *fake) clock() time.Time {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.now
}

// pass advances the clock.
func (f *fake) pass(d time.Duration) { f.do(func() { f.now = f.now.Add(d) }) }

// count returns the number of validations of a token.
func (f *fake) count(token string) int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.validations[token]
}

func (f *fake) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.URL.Path != "/identity/v3/auth/tokens" {
		w.WriteHeader(http.StatusTeapot)
		return
	}
	f.mu.Lock()
	gate := f.gate
	f.mu.Unlock()
	if r.Method == http.MethodGet && gate != nil {
		<-gate
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	switch {
	case f.status != 0:
		w.WriteHeader(f.status)
	case r.Method == http.MethodPost:
		f.signIn(w, r)
	default:
		f.validate(w, r)
	}
}

func (f *fake) signIn(w http.ResponseWriter, r *http.Request) {
	f.signIns++
	var body doc
	if err := json.NewDecoder(r.Body).Decode(&body); err != nil {
		w.WriteHeader(http.StatusBadRequest)
		return
	}
	text, _ := json.Marshal(body)
	f.bodies = append(f.bodies, string(text))
	if !strings.Contains(string(text), `"`+f.password+`"`) {
		w.WriteHeader(http.StatusUnauthorized)
		return
	}
	token, expires := fmt.Sprintf("own-%d", f.signIns), f.now.Add(f.life)
	d := doc{"user": doc{"id": "svc"}, "expires_at": expires.Format(time.RFC3339), "catalog": f.catalog}
	f.tokens[token] = &issued{d, expires}
	w.Header().Set("X-Subject-Token", token)
	w.WriteHeader(http.StatusCreated)
	json.NewEncoder(w).Encode(doc{"token": d})
}

func (f *fake) validate(w http.ResponseWriter, r *http.Request) {
	token := r.Header.Get("X-Subject-Token")
	f.validations[token]++
	own := f.tokens[r.Header.Get("X-Auth-Token")]
	if own == nil || !f.now.Before(own.expires) {
		w.WriteHeader(http.StatusUnauthorized)
		return
	}
	t := f.tokens[token]
	if t == nil || !f.now.Before(t.expires) && r.URL.Query().Get("allow_expired") != "1" {
		w.WriteHeader(http.StatusNotFound)
		return
	}
	json.NewEncoder(w).Encode(doc{"token": t.doc})
}
