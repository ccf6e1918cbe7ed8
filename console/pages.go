package console

import (
	"bytes"
	"embed"
	"errors"
	"html/template"
	"net/http"
	"net/url"
	"sync"
	"time"

	"github.com/openberth/berth/api/rest"
	"github.com/openberth/berth/console/view"
	"github.com/openberth/berth/fault"
)

//go:embed templates
var templateFiles embed.FS

// templates returns the pages by name: each with the layout and the parts that several pages use. The first page that
// is shown parses them: parsing takes as long as all else that each command of this program does at its start.
var templates = sync.OnceValue(func() map[string]*template.Template {
	all := map[string]*template.Template{}
	for _, name := range []string{"sign-in", "fleet", "rows", "error", "reading", "host", "servers",
		"server", "migrate", "guest-console", "events", "ask", "answer", "classes", "audit"} {
		all[name] = template.Must(template.New(name).Funcs(template.FuncMap{"number": view.Number,
			"plural": view.Plural, "hostPath": hostPath, "serverPath": serverPath, "clock": clockText}).
			ParseFS(templateFiles, "templates/layout.html", "templates/parts.html", "templates/asked.html",
				"templates/"+name+".html"))
	}
	return all
})

// hostPath returns the address of the page of a host.
func hostPath(name string) string { return "/hosts/" + url.PathEscape(name) }

// serverPath returns the address of the page of a server.
func serverPath(id string) string { return "/servers/" + url.PathEscape(id) }

// clockText returns a time of today for people, in UTC as all times of the console.
func clockText(t time.Time) string { return t.UTC().Format(time.TimeOnly) }

// page is what the layout shows around the content.
type page struct {
	Title, View string // View is the link of the navigation that is the current one
	User, Form  string
	Find        string
	Taken       time.Time // when the cloud was read; zero: the page does not show it
	Stale       string    // why it could not be read again
	Gaps        []string  // what could not be read
	Refresh     int       // seconds after which the browser loads the page again; 0: it does not
	Static      string
	Version     string
	Content     any
}

// page returns the page of a session. cloud may be nil.
func (one *session) page(title, at string, cloud *view.Cloud) page {
	p := page{Title: title, View: at, User: one.user, Form: one.form}
	if cloud != nil {
		p.Taken = cloud.Taken
		for _, gap := range cloud.Gaps {
			p.Gaps = append(p.Gaps, string(gap.Part)+": "+gap.Why)
		}
	}
	return p
}

// render writes a page.
func (c *Console) render(w http.ResponseWriter, status int, name string, p page) {
	p.Static, p.Version = "?v="+staticVersion, c.Version
	var out bytes.Buffer
	if err := templates()[name].ExecuteTemplate(&out, name, p); err != nil {
		c.Log.Error("page not written", "page", name, "error", err)
		http.Error(w, "the page could not be written", http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.WriteHeader(status)
	_, _ = w.Write(out.Bytes()) // the client may be gone
}

// errorContent is the content of the page of an error.
type errorContent struct {
	Text      string
	Forbidden bool
}

// errorPage shows why a page cannot be shown.
func (c *Console) errorPage(w http.ResponseWriter, r *http.Request, one *session, err error) {
	if errors.Is(err, errReading) {
		p := one.page("Reading the cloud", "", nil)
		p.Refresh = 2
		one.read.mu.Lock()
		p.Content = view.Progress(one.read.done, one.read.of)
		one.read.mu.Unlock()
		w.Header().Set("Retry-After", "2")
		c.render(w, http.StatusServiceUnavailable, "reading", p)
		return
	}
	status := rest.StatusOfKind(fault.KindOf(err))
	if status >= http.StatusInternalServerError && r.Context().Err() == nil {
		c.Log.Warn("page not shown", "path", r.URL.Path, "user", one.user, "error", err)
	}
	p := one.page("Error", "", nil)
	p.Content = errorContent{Text: fault.TextOf(err), Forbidden: status == http.StatusForbidden}
	c.render(w, status, "error", p)
}

// cloud returns what was read of the cloud for a page. stale is why it could not be read again.
func (one *session) cloud(r *http.Request) (cloud *view.Cloud, stale string, err error) {
	cloud, err = one.read.get(r.Context(), one.ctx, one.clients)
	if cloud != nil && err != nil && !refused(err) {
		return cloud, fault.TextOf(err), nil
	}
	return cloud, "", err
}
