package console

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"embed"
	"encoding/hex"
	"io/fs"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/openberth/berth/api/identity"
)

// Options are the options of the console.
type Options struct {
	Cloud   Cloud
	Version string
	TLS     bool // clients reach the console by TLS only: cookies are sent with TLS only
	Log     *slog.Logger
	Now     func() time.Time // nil: time.Now
}

// Console serves the pages. It is safe for concurrent use.
type Console struct {
	Options
	work
	sessions  sessions
	attempts  *identity.Attempts // of passwords
	signingIn chan struct{}      // a slot for each sign-in that is checked
	counting  chan struct{}      // a slot for each count of what fits
	rereading chan struct{}      // has a place for one read on behalf of a page that stays open
	handler   http.Handler
	ctx       context.Context
	stop      context.CancelFunc
}

// How many sign-ins are checked at once, and how many users count at once what fits: a count takes seconds of a core in
// a cloud of 10,000 hosts.
const (
	maxSignIns = 8
	maxCounts  = 2
)

// Close ends all sessions and the reads for them, and waits for these.
func (c *Console) Close() error {
	c.sessions.endAll()
	c.stop()
	c.sessions.reads.Wait()
	return nil
}

//go:embed static
var staticFiles embed.FS

// staticVersion is part of the addresses of the files, so that browsers keep them until they change.
var staticVersion = func() string {
	sum := sha256.New()
	for _, name := range []string{"console.css", "console.js", "icon.svg"} {
		data, err := fs.ReadFile(staticFiles, "static/"+name)
		if err != nil {
			panic(err) // the build embeds these files
		}
		_, _ = sum.Write(data)
	}
	return hex.EncodeToString(sum.Sum(nil))[:12]
}()

// serveStatic serves a file of the console.
func serveStatic(w http.ResponseWriter, r *http.Request) {
	if r.URL.Query().Get("v") == staticVersion {
		w.Header().Set("Cache-Control", "public, max-age=31536000, immutable")
	}
	http.ServeFileFS(w, r, staticFiles, "static/"+r.PathValue("file"))
}

// The beginnings of the names of the cookies; see cookieName.
const (
	sessionCookie = "berth-console"
	formCookie    = "berth-sign-in"
)

// cookieName returns the name of a cookie of the console that a client has addressed. Browsers send cookies to all
// ports of a host: without the port in the name, two consoles on one host would sign each other's users out.
func cookieName(r *http.Request, name string) string {
	if _, port, err := net.SplitHostPort(r.Host); err == nil && port != "" {
		return name + "-" + port
	}
	return name
}

// session returns the session of a request; nil: there is none.
func (c *Console) session(r *http.Request) *session {
	cookie, err := r.Cookie(cookieName(r, sessionCookie))
	if err != nil {
		return nil
	}
	live := strings.HasPrefix(r.URL.Path, "/fleet/") && r.URL.Query().Has("live")
	return c.sessions.get(cookie.Value, !live)
}

// cookie returns a cookie that scripts cannot use and that other sites cannot send, except with a link to a page: pages
// only read. It ends with the browser's session.
func (c *Console) cookie(r *http.Request, name, value string) *http.Cookie {
	return &http.Cookie{Name: cookieName(r, name), Value: value, Path: "/", HttpOnly: true, Secure: c.TLS,
		SameSite: http.SameSiteLaxMode}
}

// ownPath returns the path of this console that a form names as the next page; the first page if it is another address.
func ownPath(next string) string {
	u, err := url.Parse(next)
	if err != nil || u.IsAbs() || u.Host != "" || !strings.HasPrefix(next, "/") || strings.HasPrefix(next, "//") ||
		strings.ContainsAny(next, "\\\r\n\t") {
		return "/fleet"
	}
	return next
}

// newFormToken returns a random token for a form.
func newFormToken() string { return rand.Text() }

// same reports whether two tokens are equal and not empty.
func same(a, b string) bool { return a != "" && subtle.ConstantTimeCompare([]byte(a), []byte(b)) == 1 }
