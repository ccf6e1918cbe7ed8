package consoles

import (
	_ "embed"
	"errors"
	"io/fs"
	"mime"
	"net/http"
	"os"
	"path"
	"strings"
	"time"

	"github.com/openberth/berth/api/edge"
	"github.com/openberth/berth/compute/server/request"
	"github.com/openberth/berth/fault"
)

// Pages are the pages that browsers open, and their tokens.
type Pages struct {
	NoVNC    string        // directory of noVNC
	XTerm    string        // directory of xterm.js
	TokenTTL time.Duration // how long a token may be used
}

// The paths of pages, and of the WebSocket that they open.
const (
	pagesPath  = "/console"
	socketPath = pagesPath + "/socket"
)

//go:embed serial.html
var serialPage []byte

// maxDepth is how many segments the path of a file of noVNC has at most.
const maxDepth = 6

// PublicRoutes returns the paths of the pages, which a browser requests without a token of the identity service. The
// pages are the same for everyone; the WebSocket needs a token of its own.
func PublicRoutes(s *Handlers) (all []edge.Route[*request.Call]) {
	add := func(path string, handle func(*request.Call) error) {
		all = append(all, edge.Route[*request.Call]{Path: path, Public: true,
			Methods: request.Methods{http.MethodGet: request.Open(handle)}})
	}
	add(socketPath, s.serveSocket)
	add(pagesPath+"/serial.html", func(c *request.Call) error {
		return writeFile(c, "serial.html", serialPage)
	})
	names := []string{"a", "b", "c", "d", "e", "f"}
	for _, dir := range []struct{ name, path, option string }{{"novnc", s.Pages.NoVNC, "novnc_directory"},
		{"xterm", s.Pages.XTerm, "xterm_directory"}} {
		pattern := pagesPath + "/" + dir.name
		for i := range maxDepth {
			pattern += "/{" + names[i] + "}"
			add(pattern, func(c *request.Call) error { return s.serveFile(c, dir.path, dir.option, names[:i+1]) })
		}
	}
	return all
}

// serveFile sends a file of a directory. Its path is in values of the path of the request.
func (s *Handlers) serveFile(c *request.Call, dir, option string, values []string) error {
	var segments []string
	for _, v := range values {
		segments = append(segments, c.R.PathValue(v))
	}
	name := strings.Join(segments, "/")
	root, err := os.OpenRoot(dir)
	if err != nil {
		return fault.New(fault.NotFound, "the program for the console is not installed: %w; install Debian's packages novnc "+
			"and node-xterm, or set [berth] %s", err, option)
	}
	defer root.Close()
	text, err := fs.ReadFile(root.FS(), path.Clean(name)) // no path leads out of the directory
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, fs.ErrInvalid) {
		return fault.New(fault.NotFound, "there is no file %s", edge.Clip(name))
	}
	if err != nil {
		return fault.Wrap(fault.NotFound, err)
	}
	return writeFile(c, name, text)
}

// writeFile sends a file with the media type of its name.
func writeFile(c *request.Call, name string, text []byte) error {
	kind := mime.TypeByExtension(path.Ext(name))
	switch path.Ext(name) {
	case ".js":
		kind = "text/javascript; charset=utf-8"
	case ".html":
		kind = "text/html; charset=utf-8"
	case ".css":
		kind = "text/css; charset=utf-8"
	}
	if kind == "" {
		kind = "application/octet-stream"
	}
	h := c.W.Header()
	h.Set("Content-Type", kind)
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Referrer-Policy", "no-referrer") // the URL has the token
	c.W.WriteHeader(http.StatusOK)
	_, err := c.W.Write(text)
	return err
}
