package console

import (
	"context"
	"crypto/sha256"
	"net/http"
	"net/url"

	"github.com/openberth/berth/api/identity"
	"github.com/openberth/berth/api/rest"
	"github.com/openberth/berth/fault"
)

// New returns a console. Close ends its sessions.
func New(o Options) *Console {
	c := &Console{Options: o, work: work{readCloud, lookAt, auditWait, o.Log}, attempts: identity.NewAttempts(),
		signingIn: make(chan struct{}, maxSignIns),
		counting:  make(chan struct{}, maxCounts), rereading: make(chan struct{}, 1)}
	c.sessions = sessions{now: clock(o.Now), byID: map[[sha256.Size]byte]*session{}}
	c.ctx, c.stop = context.WithCancel(context.Background())
	c.handler = secured(c.routes(), o.TLS)
	go c.sessions.run(c.ctx)
	return c
}

// ServeHTTP implements http.Handler. Services in memory see the address of the client: they let users wait after wrong
// passwords from their address.
func (c *Console) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	c.handler.ServeHTTP(w, r.WithContext(rest.From(r.Context(), r.RemoteAddr)))
}

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
	mux.HandleFunc("GET /fleet/stream", c.signedIn(c.fleetStream))
	mux.HandleFunc("GET /hosts/{host}", c.signedIn(c.host))
	mux.HandleFunc("GET /servers", c.signedIn(c.servers))
	mux.HandleFunc("GET /servers/{server}", c.signedIn(c.server))
	mux.HandleFunc("GET /servers/{server}/migrate", c.signedIn(c.plannedMove))
	mux.HandleFunc("POST /servers/{server}/act", c.form(c.act))
	mux.HandleFunc("POST /servers/{server}/console", c.form(c.guestConsole))
	mux.HandleFunc("GET /ask", c.signedIn(c.ask))
	mux.HandleFunc("GET /ask/answer", c.signedIn(c.askAnswer))
	mux.HandleFunc("GET /classes", c.signedIn(c.classes))
	mux.HandleFunc("GET /audit", c.signedIn(c.audit))
	mux.HandleFunc("POST /audit/look", c.auditForm(c.auditAgain))
	mux.HandleFunc("POST /audit/apply", c.auditForm(c.auditApply))
	mux.HandleFunc("POST /audit/undo", c.auditForm(c.auditUndo))
	mux.HandleFunc("GET /audit/undo.json", c.signedIn(c.undoFile))
	mux.HandleFunc("GET /events", c.signedIn(c.events))
	mux.HandleFunc("GET /events/stream", c.signedIn(c.eventStream))
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

// form serves a form. It refuses forms of other sessions.
func (c *Console) form(h handler) http.HandlerFunc {
	return c.signedIn(func(w http.ResponseWriter, r *http.Request, one *session) error {
		r.Body = http.MaxBytesReader(w, r.Body, maxChangeForm)
		if err := r.ParseForm(); err != nil {
			return fault.New(fault.Invalid, "nothing was changed: the form could not be read: %w; load the page again", err)
		}
		if !same(one.form, r.PostForm.Get("form")) {
			return fault.New(fault.Forbidden, "nothing was changed: the form is not of this session; load the page again")
		}
		return h(w, r, one)
	})
}

// maxChangeForm is the size of a form that changes something; that of the audit names each change.
const maxChangeForm = 4 << 20

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
