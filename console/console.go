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
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/openberth/berth/fault"
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
	sessions  sessions
	read      readFunc
	signingIn chan struct{} // a slot for each sign-in that is checked
	handler   http.Handler
	ctx       context.Context
	stop      context.CancelFunc
}

// maxSignIns is how many sign-ins are checked at once.
const maxSignIns = 8

// New returns a console. Close ends its sessions.
func New(o Options) *Console {
	c := &Console{Options: o, read: readCloud, signingIn: make(chan struct{}, maxSignIns)}
	c.sessions = sessions{now: clock(o.Now), byID: map[[sha256.Size]byte]*session{}}
	c.ctx, c.stop = context.WithCancel(context.Background())
	c.handler = secured(c.routes(), o.TLS)
	return c
}

// Close ends all sessions and the reads for them.
func (c *Console) Close() error {
	c.sessions.endAll()
	c.stop()
	return nil
}

// ServeHTTP implements http.Handler.
func (c *Console) ServeHTTP(w http.ResponseWriter, r *http.Request) { c.handler.ServeHTTP(w, r) }

// routes returns the handler of all paths.
func (c *Console) routes() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("OK\n")) })
	mux.HandleFunc("GET /static/{file}", serveStatic)
	mux.HandleFunc("GET /sign-in", c.signInPage)
	mux.HandleFunc("POST /sign-in", c.signIn)
	mux.HandleFunc("POST /sign-out", c.signOut)
	mux.HandleFunc("GET /{$}", func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, "/fleet", http.StatusSeeOther)
	})
	mux.HandleFunc("GET /fleet", c.signedIn(c.fleet))
	mux.HandleFunc("GET /fleet/rows", c.signedIn(c.fleetRows))
	mux.HandleFunc("/", c.signedIn(func(w http.ResponseWriter, r *http.Request, one *session) error {
		return fault.New(fault.NotFound, "there is no page %s; the fleet is at /fleet", r.URL.Path)
	}))
	return mux
}

// policy lets pages use the files of the console only, without inline script and style, and in no frame.
const policy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; " +
	"form-action 'self'; base-uri 'none'; frame-ancestors 'none'"

// secured adds the headers of all answers, and refuses writes that a page of another site sends.
func secured(h http.Handler, tls bool) http.Handler {
	h = new(http.CrossOriginProtection).Handler(h)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		for name, value := range map[string]string{"Content-Security-Policy": policy, "X-Frame-Options": "DENY",
			"X-Content-Type-Options": "nosniff", "Referrer-Policy": "same-origin", "Cache-Control": "no-store",
			"Cross-Origin-Opener-Policy": "same-origin", "Cross-Origin-Resource-Policy": "same-origin"} {
			w.Header().Set(name, value)
		}
		if tls {
			w.Header().Set("Strict-Transport-Security", "max-age=31536000")
		}
		h.ServeHTTP(w, r)
	})
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

// handler serves a page of a session. Its error is shown in a page.
type handler func(http.ResponseWriter, *http.Request, *session) error

// signedIn serves a page to users who have signed in, and sends others to the sign-in page.
func (c *Console) signedIn(h handler) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		one := c.session(r)
		if one == nil {
			c.toSignIn(w, r, "")
			return
		}
		err := h(w, r, one)
		switch {
		case err == nil:
		case refused(err):
			c.sessions.remove(one)
			c.toSignIn(w, r, "expired")
		default:
			c.errorPage(w, r, one, err)
		}
	}
}

// The names of the cookies.
const (
	sessionCookie = "berth-console"
	formCookie    = "berth-sign-in"
)

// session returns the session of a request; nil: there is none.
func (c *Console) session(r *http.Request) *session {
	cookie, err := r.Cookie(sessionCookie)
	if err != nil {
		return nil
	}
	return c.sessions.get(cookie.Value)
}

// cookie returns a cookie that scripts and other sites cannot use. It ends with the browser's session.
func (c *Console) cookie(name, value string) *http.Cookie {
	return &http.Cookie{Name: name, Value: value, Path: "/", HttpOnly: true, Secure: c.TLS,
		SameSite: http.SameSiteStrictMode}
}

// toSignIn sends a client to the sign-in page, which leads back to the requested one. Parts of pages get status 401.
func (c *Console) toSignIn(w http.ResponseWriter, r *http.Request, why string) {
	if r.Header.Get("Sec-Fetch-Mode") != "" && r.Header.Get("Sec-Fetch-Mode") != "navigate" {
		http.Error(w, "sign in again", http.StatusUnauthorized)
		return
	}
	query := url.Values{}
	if r.Method == http.MethodGet && r.URL.Path != "/" {
		query.Set("next", r.URL.RequestURI())
	}
	if why != "" {
		query.Set("why", why)
	}
	http.Redirect(w, r, "/sign-in?"+query.Encode(), http.StatusSeeOther)
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
