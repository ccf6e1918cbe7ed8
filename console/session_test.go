package console

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"regexp"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/openberth/berth/api/rest"
	"github.com/openberth/berth/console/view"
)

// visitor is a browser without script.
type visitor struct {
	t *testing.T
	*http.Client
	url string
}

func (s *site) visitor(t *testing.T) visitor {
	jar, err := cookiejar.New(nil)
	if err != nil {
		t.Fatal(err)
	}
	return visitor{t, &http.Client{Jar: jar}, s.URL}
}

// page returns the path after redirections, the status and the text of a page.
func (v visitor) page(r *http.Response, err error) (path string, status int, text string) {
	v.t.Helper()
	if err != nil {
		v.t.Fatal(err)
	}
	defer r.Body.Close()
	body, err := io.ReadAll(r.Body)
	if err != nil {
		v.t.Fatal(err)
	}
	if policy := r.Header.Get("Content-Security-Policy"); !strings.Contains(policy, "frame-ancestors 'none'") ||
		strings.Contains(policy, "unsafe") {
		v.t.Errorf("the policy of %s is %q", r.Request.URL, policy)
	}
	return r.Request.URL.Path, r.StatusCode, string(body)
}

// field finds the token of a form.
var field = regexp.MustCompile(`name="form" value="([^"]+)"`)

// signIn sends the form of the sign-in page.
func (v visitor) signIn(fields url.Values) (path string, status int, text string) {
	v.t.Helper()
	_, _, page := v.page(v.Get(v.url + "/sign-in"))
	fields.Set("form", field.FindStringSubmatch(page)[1])
	return v.page(v.PostForm(v.url+"/sign-in", fields))
}

// Users sign in with what the services accept; others get the reason. What they typed comes back, but not the password.
func TestSignIn(t *testing.T) {
	t.Parallel()
	s := newSite(t, WithPassword, nil)
	v := s.visitor(t)
	if path, status, text := v.page(v.Get(s.URL + "/fleet?q=a")); path != "/sign-in" || status != http.StatusOK ||
		!strings.Contains(text, `name="next" value="/fleet?q=a"`) {
		t.Errorf("without a session: %s %d %s", path, status, text)
	}
	path, status, text := v.signIn(url.Values{"user": {"ann"}, "password": {"wrong"}})
	if path != "/sign-in" || status != http.StatusForbidden ||
		!strings.Contains(text, "the name or the password is wrong") ||
		!strings.Contains(text, `value="ann"`) || strings.Contains(text, `"wrong"`) {
		t.Errorf("with a wrong password: %s %d %s", path, status, text)
	}
	if _, status, text := v.signIn(url.Values{"user": {"ann"}}); status != http.StatusForbidden ||
		!strings.Contains(text, "write both") {
		t.Errorf("without a password: %d %s", status, text)
	}
	if path, status, _ := v.signIn(url.Values{"user": {"ann"}, "password": {"right"}, "next": {"/fleet?q=a"}}); status !=
		http.StatusOK || path != "/fleet" {
		t.Errorf("with the password: %s %d", path, status)
	}
	for _, next := range []string{"//evil.example", "https://evil.example/", `/\evil.example`, "javascript:alert(1)",
		"/\tevil", "fleet"} {
		if got := ownPath(next); got != "/fleet" {
			t.Errorf("after the sign-in, %q leads to %q", next, got)
		}
	}
	delete(s.apis, "/")
	v = s.visitor(t)
	if _, status, text := v.signIn(url.Values{"user": {"ann"}, "password": {"right"}}); status !=
		http.StatusServiceUnavailable || !strings.Contains(text, "could not be checked") {
		t.Errorf("without the services: %d %s", status, text)
	}
}

// A page of another site can neither sign a user in nor out, and scripts do not see the cookies.
func TestOtherSites(t *testing.T) {
	t.Parallel()
	s := newSite(t, WithToken, func() view.Source { return made(1) })
	v := s.visitor(t)
	if _, status, _ := v.page(v.PostForm(s.URL+"/sign-in", url.Values{"token": {"admin"}})); status !=
		http.StatusForbidden {
		t.Errorf("a sign-in without the token of the form: %d", status)
	}
	if path, status, _ := v.signIn(url.Values{"token": {"admin"}}); path != "/fleet" || status != http.StatusOK {
		t.Fatalf("%s %d", path, status)
	}
	v.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	for _, fields := range []url.Values{{}, {"form": {""}}, {"form": {"other"}}} {
		if _, status, _ := v.page(v.PostForm(s.URL+"/sign-out", fields)); status != http.StatusForbidden {
			t.Errorf("a sign-out with %v: %d", fields, status)
		}
	}
	_, _, page := v.page(v.Get(s.URL + "/fleet"))
	fields := url.Values{"form": {field.FindStringSubmatch(page)[1]}}
	request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, s.URL+"/sign-out",
		strings.NewReader(fields.Encode()))
	if err != nil {
		t.Fatal(err)
	}
	request.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	request.Header.Set("Sec-Fetch-Site", "cross-site")
	if _, status, _ := v.page(v.Do(request)); status != http.StatusForbidden {
		t.Errorf("a sign-out from another site: %d", status)
	}
	if _, status, _ := v.page(v.Get(s.URL + "/fleet")); status != http.StatusOK {
		t.Errorf("the session has ended: %d", status)
	}
	if _, status, _ := v.page(v.PostForm(s.URL+"/sign-out", fields)); status != http.StatusSeeOther {
		t.Errorf("a sign-out: %d", status)
	}
	if path, status, _ := v.page(v.Get(s.URL + "/fleet")); status != http.StatusSeeOther {
		t.Errorf("after the sign-out: %s %d", path, status)
	}
	for _, tls := range []bool{false, true} {
		s.console.TLS = tls
		r := &http.Request{Host: "cloud:8780"}
		if c := s.console.cookie(r, "a", "b"); !c.HttpOnly || c.SameSite != http.SameSiteLaxMode || c.Secure != tls ||
			c.Name != "a-8780" {
			t.Errorf("the cookie is %s", c)
		}
	}
}

// Services in memory see the address of the browser, at the sign-in and when a page reads the cloud: what one address
// does wrong delays no other. A user who is signed in is led on from the sign-in page.
func TestServicesSeeTheBrowser(t *testing.T) {
	t.Parallel()
	s := newSite(t, WithToken, nil)
	seen := make(chan string, 100)
	for path, answer := range s.apis {
		s.apis[path] = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			seen <- r.RemoteAddr
			rest.WriteJSON(w, http.StatusOK, answer)
		})
	}
	v := s.visitor(t)
	if path, status, _ := v.signIn(url.Values{"token": {"admin"}, "next": {"/fleet"}}); path != "/fleet" {
		t.Fatalf("%s %d", path, status)
	}
	if path, _, _ := v.page(v.Get(s.URL + "/sign-in?next=/servers")); path != "/servers" {
		t.Errorf("the sign-in page leads to %s", path)
	}
	if len(seen) < 4 {
		t.Fatalf("%d requests", len(seen))
	}
	for range len(seen) {
		if address := <-seen; strings.HasSuffix(address, ":0") || !strings.HasPrefix(address, "127.0.0.1:") {
			t.Errorf("a service saw %s", address)
		}
	}
}

// A session ends with its token, without requests, when there are too many, and when a service no longer accepts it.
func TestSessionsEnd(t *testing.T) {
	t.Parallel()
	now := time.Now()
	s := sessions{now: func() time.Time { return now }, byID: map[[32]byte]*session{}}
	add := func(ends time.Duration) string {
		return s.add(context.Background(), "ann", Credentials{User: "ann"}, Clients{}, now.Add(ends), work{})
	}
	short, long := add(time.Minute), add(sessionTime)
	first := s.get(short, true)
	if first == nil || s.get(long, true) == nil || s.get("", true) != nil || s.get("other", true) != nil {
		t.Fatal("the sessions are not as they were added")
	}
	now = now.Add(61 * time.Second)
	if s.get(short, true) != nil || first.ctx.Err() == nil {
		t.Error("a session is longer than its token")
	}
	now = now.Add(idleTime + time.Second)
	if s.get(long, true) != nil {
		t.Error("an unused session does not end")
	}
	oldest := add(sessionTime)
	now = now.Add(time.Second)
	for range maxOfUser {
		add(sessionTime)
	}
	if s.get(oldest, true) != nil || len(s.byID) != maxOfUser {
		t.Errorf("%d sessions", len(s.byID))
	}
	var others []string
	for n := range maxSessions - maxOfUser + 4 { // the last four end sessions of ann, who has most
		others = append(others, s.add(context.Background(), "", Credentials{User: fmt.Sprint("user", n)}, Clients{},
			now.Add(sessionTime), work{}))
	}
	for _, id := range others {
		if s.get(id, true) == nil {
			t.Error("a session of another user has ended")
		}
	}
	if len(s.byID) != maxSessions {
		t.Errorf("%d sessions", len(s.byID))
	}

	site := newSite(t, WithToken, nil)
	v := site.visitor(t)
	if path, _, _ := v.signIn(url.Values{"token": {"admin"}}); path != "/fleet" {
		t.Fatal(path)
	}
	site.apis["/resource_providers"] = http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusUnauthorized)
	})
	for one := range site.console.sessions.byID {
		site.console.sessions.byID[one].read.forget()
	}
	path, _, text := v.page(v.Get(site.URL + "/fleet"))
	if path != "/sign-in" || !strings.Contains(text, "Your sign-in has ended") {
		t.Errorf("after the service refused the token: %s %s", path, text)
	}
}

// Who may not read the cloud gets a page with the reason; a service that fails later leaves the old state with a note.
func TestPagesWithoutRightsAndServices(t *testing.T) {
	t.Parallel()
	s := newSite(t, WithToken, nil)
	v := s.visitor(t)
	if path, status, text := v.signIn(url.Values{"token": {"member"}}); path != "/fleet" ||
		status != http.StatusForbidden || !strings.Contains(text, "Not permitted") || strings.Contains(text, "<table") {
		t.Errorf("%s %d %s", path, status, text)
	}
	v = s.visitor(t)
	if path, status, text := v.signIn(url.Values{"token": {"admin"}}); path != "/fleet" || status != http.StatusOK ||
		!strings.Contains(text, "No host") {
		t.Errorf("%s %d %s", path, status, text)
	}
	s.apis["/resource_providers"] = http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusServiceUnavailable)
	})
	for _, one := range s.console.sessions.byID {
		one.read.mu.Lock()
		one.read.at = time.Now().Add(-time.Hour)
		one.read.mu.Unlock()
	}
	if _, status, text := v.page(v.Get(s.URL + "/fleet")); status != http.StatusOK ||
		!strings.Contains(text, "could not be read again") {
		t.Errorf("%d %s", status, text)
	}
	if _, status, text := v.page(v.Get(s.URL + "/nothing")); status != http.StatusNotFound ||
		!strings.Contains(text, "there is no page /nothing") {
		t.Errorf("%d %s", status, text)
	}
}

// Keystone is not asked about the passwords of a name and an address whose sign-ins have failed too often.
func TestFailedSignInsAtKeystoneWait(t *testing.T) {
	t.Parallel()
	s := newSite(t, WithKeystone, func() view.Source { return made(1) })
	asked := 0
	services := s.apis["/"]
	s.apis["/"] = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		name, password, _ := r.BasicAuth() // of the account in place of one of Keystone
		if asked++; password != "right" || name == "" {
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		_ = jsonTo(w, services)
	})
	signIn := func(name, password string) (string, int, string) {
		return s.visitor(t).signIn(url.Values{"user": {name}, "password": {password}})
	}
	for range 4 {
		if _, status, text := signIn("ann", "wrong"); status != http.StatusForbidden {
			t.Fatalf("%d %s", status, text)
		}
	}
	before := asked
	_, status, text := signIn("ann", "right")
	if status != http.StatusServiceUnavailable || asked != before ||
		!strings.Contains(text, "4 sign-ins of ann from this address have failed") {
		t.Errorf("%d, asked %d times: %s", status, asked-before, text)
	}
	if path, status, text := signIn("bob", "right"); path != "/fleet" || status != http.StatusOK {
		t.Errorf("another user: %s %d %s", path, status, text)
	}
}

// Wrong passwords whose checks take long do not keep other users from signing in.
func TestSlowWrongPasswordsDelayNobody(t *testing.T) {
	t.Parallel()
	for _, kind := range []SignInKind{WithKeystone, WithPassword} {
		s := newSite(t, kind, func() view.Source { return made(1) })
		services := s.apis["/"]
		slow, release := make(chan struct{}, 1), make(chan struct{})
		var stalls atomic.Bool
		s.apis["/"] = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			switch _, password, _ := r.BasicAuth(); {
			case password == "right":
				_ = jsonTo(w, services)
				return
			case stalls.Load():
				select {
				case slow <- struct{}{}:
				default:
				}
				<-release
			}
			w.WriteHeader(http.StatusUnauthorized)
		})
		if _, status, _ := s.visitor(t).signIn(url.Values{"user": {"eve"}, "password": {"wrong"}}); status !=
			http.StatusForbidden {
			t.Fatalf("%s: %d", kind, status)
		}
		stalls.Store(true)
		var all sync.WaitGroup
		for range 3 * maxSignIns {
			v := s.visitor(t)
			all.Go(func() { v.signIn(url.Values{"user": {"eve"}, "password": {"wrong"}}) })
		}
		<-slow
		path, status, text := s.visitor(t).signIn(url.Values{"user": {"bob"}, "password": {"right"}})
		close(release)
		all.Wait()
		if path != "/fleet" || status != http.StatusOK {
			t.Errorf("%s: %s %d %s", kind, path, status, text)
		}
	}
}

// Pages name a user of noauth2 by the token, and show no other token.
func TestNamesOfUsers(t *testing.T) {
	for _, c := range []struct {
		named bool
		user  Credentials
		want  string
	}{
		{true, Credentials{Token: "ann"}, "ann"}, {true, Credentials{Token: "ann:red"}, "ann"},
		{true, Credentials{Token: ":red"}, ":red"}, {false, Credentials{Token: "gAAAA"}, "user with a token"},
		{false, Credentials{User: "bob", Token: "gAAAA"}, "bob"}, {true, Credentials{}, "user with a token"},
	} {
		if got := (Cloud{Named: c.named}).nameOf(c.user); got != c.want {
			t.Errorf("%+v: %q, want %q", c.user, got, c.want)
		}
	}
}
