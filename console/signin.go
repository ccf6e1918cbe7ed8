package console

import (
	"context"
	"net/http"
	"time"

	"github.com/openberth/berth/api/identity"
	"github.com/openberth/berth/api/rest"
	"github.com/openberth/berth/fault"
)

// maxForm is the maximum size of a form in bytes.
const maxForm = 64 << 10

// signInTime is the time limit of the calls that check a sign-in.
const signInTime = 30 * time.Second

// signInForm is the content of the sign-in page.
type signInForm struct {
	Kind                                     SignInKind
	Cloud, Form, Next, Error, Note           string
	User, Project, UserDomain, ProjectDomain string
}

// signInPage shows the form.
func (c *Console) signInPage(w http.ResponseWriter, r *http.Request) {
	if c.session(r) != nil {
		http.Redirect(w, r, ownPath(r.URL.Query().Get("next")), http.StatusSeeOther)
		return
	}
	f := signInForm{Next: r.URL.Query().Get("next"), UserDomain: "Default", ProjectDomain: "Default"}
	if r.URL.Query().Get("why") == "expired" {
		f.Note = "Your sign-in has ended. Sign in again."
	}
	c.showSignIn(w, r, f, http.StatusOK)
}

// showSignIn writes the form with a new token, which a cookie has too: a page of another site cannot send both.
func (c *Console) showSignIn(w http.ResponseWriter, r *http.Request, f signInForm, status int) {
	f.Kind, f.Cloud, f.Form = c.Cloud.Kind, c.Cloud.Name, newFormToken()
	http.SetCookie(w, c.cookie(r, formCookie, f.Form))
	c.render(w, status, "sign-in", page{Title: "Sign in", Content: f})
}

// signIn begins a session.
func (c *Console) signIn(w http.ResponseWriter, r *http.Request) {
	r.Body = http.MaxBytesReader(w, r.Body, maxForm)
	cookie, err := r.Cookie(cookieName(r, formCookie))
	f := signInForm{Next: r.PostFormValue("next"), User: r.PostFormValue("user"), Project: r.PostFormValue("project"),
		UserDomain: r.PostFormValue("user_domain"), ProjectDomain: r.PostFormValue("project_domain")}
	if err != nil || !same(cookie.Value, r.PostFormValue("form")) {
		f.Error = "The form was too old, or cookies are off. Sign in again."
		c.showSignIn(w, r, f, http.StatusForbidden)
		return
	}
	credentials := Credentials{User: f.User, Password: r.PostFormValue("password"), Token: r.PostFormValue("token"),
		Project: f.Project, UserDomain: f.UserDomain, ProjectDomain: f.ProjectDomain}
	id, err := c.begin(r, credentials)
	if err != nil {
		status := http.StatusServiceUnavailable
		f.Error = "The sign-in could not be checked: " + fault.TextOf(err)
		if refused(err) || fault.Is(err, fault.Forbidden) || fault.Is(err, fault.Invalid) {
			status = http.StatusForbidden
			f.Error = "The sign-in failed: " + fault.TextOf(err)
		}
		c.Log.Warn("sign-in failed", "user", c.Cloud.nameOf(credentials), "address", r.RemoteAddr, "error", err)
		c.showSignIn(w, r, f, status)
		return
	}
	if old := c.session(r); old != nil {
		c.sessions.remove(old)
	}
	c.Log.Info("user signed in", "user", c.Cloud.nameOf(credentials), "address", r.RemoteAddr)
	http.SetCookie(w, c.cookie(r, sessionCookie, id))
	http.Redirect(w, r, ownPath(f.Next), http.StatusSeeOther)
}

// begin checks the credentials of a request and begins a session.
func (c *Console) begin(r *http.Request, credentials Credentials) (id string, err error) {
	if c.Cloud.Kind != WithToken && credentials.Token == "" && (credentials.User == "" || credentials.Password == "") {
		return "", fault.New(fault.Invalid, "the name or the password is missing; write both")
	}
	ctx, cancel := context.WithTimeout(r.Context(), signInTime)
	defer cancel()
	clients, err := c.Cloud.SignIn(credentials)
	if err != nil {
		return "", err
	}
	ends, err := c.check(ctx, r, &clients, credentials)
	if err != nil {
		return "", err
	}
	return c.sessions.add(rest.From(c.ctx, r.RemoteAddr), c.Cloud.nameOf(credentials), credentials, clients, ends,
		c.work), nil
}

// check is clients.check, of some sign-ins at one time. Passwords of a name and an address with failures wait before,
// so that they do not keep others waiting: Keystone may be asked about every password, and for Berth's services the
// console is one address.
func (c *Console) check(ctx context.Context, r *http.Request, clients *Clients, credentials Credentials) (
	ends time.Time, err error) {
	if credentials.Password == "" {
		return c.checkNow(ctx, clients)
	}
	from := identity.CallerOf(r, credentials.User)
	end, err := c.attempts.Begin(ctx, from, c.sessions.now())
	if err != nil {
		return ends, err
	}
	defer end()
	switch ends, err = c.checkNow(ctx, clients); {
	case err == nil:
		c.attempts.Succeed(from)
	case refused(err):
		c.attempts.Fail(from, c.sessions.now())
	}
	return ends, err
}

// checkNow is clients.check when its turn comes.
func (c *Console) checkNow(ctx context.Context, clients *Clients) (ends time.Time, err error) {
	select {
	case c.signingIn <- struct{}{}:
		defer func() { <-c.signingIn }()
	case <-ctx.Done():
		return ends, fault.New(fault.Unavailable, "many users sign in; try again")
	}
	return clients.check(ctx, c.sessions.now())
}

// signOut ends the session.
func (c *Console) signOut(w http.ResponseWriter, r *http.Request) {
	r.Body = http.MaxBytesReader(w, r.Body, maxForm)
	one := c.session(r)
	if one != nil && !same(one.form, r.PostFormValue("form")) {
		c.errorPage(w, r, one, fault.New(fault.Forbidden, "the form is not of this session; reload the page"))
		return
	}
	if one != nil {
		c.sessions.remove(one)
	}
	gone := c.cookie(r, sessionCookie, "")
	gone.MaxAge = -1
	http.SetCookie(w, gone)
	http.Redirect(w, r, "/sign-in", http.StatusSeeOther)
}
