package image

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/openberth/berth/api/identity"
	"github.com/openberth/berth/fault"
)

// answered and missing are responses of OpenStack's Glance 25, with other ids: an image without Keystone, and an
// image that does not exist. member is a member of a shared image.
const (
	answered = `{"hw_numa_nodes": "2", "trait:HW_CPU_X86_AVX2": "required", "hw_numa_cpus.0": "0", "name": "one", ` +
		`"disk_format": "raw", "container_format": "bare", "visibility": "%s", "size": 6, "virtual_size": 6, ` +
		`"status": "active", "checksum": "e80b5017098950fc58aad83c8c14978e", "protected": false, "min_ram": 512, ` +
		`"min_disk": 1, "owner": %s, "os_hidden": false, "os_hash_algo": "sha512", "os_hash_value": "e32ef1", ` +
		`"id": "i1", "created_at": "2026-11-21T01:02:51Z", "updated_at": "2026-11-21T01:06:25Z", "tags": [], ` +
		`"self": "/v2/images/i1", "file": "/v2/images/i1/file", "schema": "/v2/schemas/image"}`
	missing = "<html>\n <head>\n  <title>404 Not Found</title>\n </head>\n <body>\n  <h1>404 Not Found</h1>\n  No " +
		"image found with ID i1<br /><br />\n\n\n\n </body>\n</html>"
	member = `{"member_id": "p1", "image_id": "i1", "status": "pending", "created_at": "2026-11-21T01:06:25Z", ` +
		`"updated_at": "2026-11-21T01:06:25Z", "schema": "/v2/schemas/member"}`
)

// glance is a fake image service that records its requests.
type glance struct {
	*httptest.Server
	mu       sync.Mutex
	received []*http.Request
	handle   func(w http.ResponseWriter, r *http.Request)
}

// fake starts an image service.
func fake(t *testing.T, handle func(w http.ResponseWriter, r *http.Request)) *glance {
	g := &glance{handle: handle}
	g.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		g.mu.Lock()
		g.received = append(g.received, r)
		g.mu.Unlock()
		g.handle(w, r)
	}))
	t.Cleanup(g.Close)
	return g
}

func (g *glance) requests() []*http.Request {
	g.mu.Lock()
	defer g.mu.Unlock()
	return append([]*http.Request(nil), g.received...)
}

// client returns a client that uses the servers in order and does not wait between tries.
func client(t *testing.T, o Options) *Client {
	t.Helper()
	c, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	c.first = func(int) int { return 0 }
	c.wait = func(context.Context) {}
	return c
}

var (
	ann   = identity.Identity{User: "ann", Project: "p1", Roles: []string{"member", "reader"}}
	admin = identity.Identity{User: "root", Project: "p9", Roles: []string{"admin"}}
)

func TestImageIsRead(t *testing.T) {
	g := fake(t, func(w http.ResponseWriter, r *http.Request) { fmt.Fprintf(w, answered, "shared", "null") })
	got, err := client(t, Options{Servers: []string{g.URL + "/v2/"}}).Image(t.Context(), ann, "ann:p1", "i1")
	if err != nil {
		t.Fatal(err)
	}
	want := `{"ID":"i1","Name":"one","Status":"active","Visibility":"shared","Owner":"","MinRAM":512,"MinDisk":1,` +
		`"Size":6,"DiskFormat":"raw","Container":"bare","Checksum":"e80b5017098950fc58aad83c8c14978e",` +
		`"HashAlgo":"sha512","HashValue":"e32ef1","Created":"2026-11-21T01:02:51Z",` +
		`"Updated":"2026-11-21T01:06:25Z","Properties":{"hw_numa_cpus.0":"0","hw_numa_nodes":"2",` +
		`"trait:HW_CPU_X86_AVX2":"required"}}`
	type plain Image
	if text, _ := json.Marshal(plain(got)); string(text) != want {
		t.Errorf("got  %s\nwant %s", text, want)
	}
	r := g.requests()[0]
	if r.URL.Path != "/v2/images/i1" || r.Header.Get("X-Auth-Token") != "ann:p1" || r.Header.Get("X-Tenant-Id") != "p1" ||
		r.Header.Get("X-User-Id") != "ann" ||
		r.Header.Get("X-Roles") != "member,reader" || r.Header.Get("X-Identity-Status") != "Confirmed" {
		t.Errorf("request %s with %v", r.URL, r.Header)
	}
}

func TestUnusualValuesOfAnImage(t *testing.T) {
	var i Image
	text := `{"id": "i", "status": "queued", "name": null, "size": null, "min_ram": 0, "hw_numa_nodes": 2,
		"none": null, "flag": true}`
	if err := json.Unmarshal([]byte(text), &i); err != nil {
		t.Fatal(err)
	}
	if i.Name != "" || i.Size != 0 || len(i.Properties) != 2 || i.Properties["hw_numa_nodes"] != "2" ||
		i.Properties["flag"] != "true" {
		t.Errorf("%+v", i)
	}
	for _, text := range []string{`{}`, `{"id": "i"}`, `[]`, `{"id": "i", "status": 1}`,
		`{"id": "i", "status": "active", "min_ram": "much"}`} {
		if err := json.Unmarshal([]byte(text), &i); err == nil {
			t.Errorf("%s is accepted as an image", text)
		}
	}
}

// TestVisibility tests which callers may see an image if the image service returns all images to all callers.
func TestVisibility(t *testing.T) {
	for _, c := range []struct {
		visibility, owner string
		memberStatus      int // status of the response for the member p1
		who               identity.Identity
		seen              bool
	}{
		{"public", `"p2"`, 404, ann, true},
		{"community", `"p2"`, 404, ann, true},
		{"private", `"p1"`, 404, ann, true},
		{"private", `null`, 404, ann, true},
		{"private", `"p2"`, 404, ann, false},
		{"private", `"p2"`, 200, ann, false},
		{"private", `"p2"`, 404, admin, true},
		{"shared", `"p2"`, 404, ann, false},
		{"shared", `"p2"`, 403, ann, false},
		{"shared", `"p2"`, 200, ann, true},
		{"shared", `"p2"`, 200, identity.Identity{User: "system"}, false}, // without project
		{"shared", `"p2"`, 200, identity.Identity{User: "bob", Project: ".."}, false},
	} {
		t.Run(fmt.Sprint(c), func(t *testing.T) {
			g := fake(t, func(w http.ResponseWriter, r *http.Request) {
				if strings.HasPrefix(r.URL.Path, "/v2/images/i1/members/") {
					w.WriteHeader(c.memberStatus)
					fmt.Fprint(w, member)
					return
				}
				fmt.Fprintf(w, answered, c.visibility, c.owner)
			})
			_, err := client(t, Options{Servers: []string{g.URL}}).Image(t.Context(), c.who, "t", "i1")
			if (err == nil) != c.seen || err != nil && !fault.Is(err, fault.NotFound) {
				t.Errorf("%v", err)
			}
		})
	}
}

func TestResponsesOfTheImageService(t *testing.T) {
	for _, c := range []struct {
		status int
		body   string
		kind   fault.Kind
		part   string
		tries  int
	}{
		{404, missing, fault.NotFound, "", 1},
		{401, "", fault.Forbidden, "does not let the caller in (status 401)", 1},
		{403, "", fault.Forbidden, "does not let the caller in (status 403)", 1},
		{300, "{}", fault.Unavailable, "status 300, which the Image API v2 does not have", 1},
		{400, "", fault.Unavailable, "status 400", 1},
		{200, "<html>", fault.Unavailable, "is not valid", 1},
		{200, `{"versions": []}`, fault.Unavailable, "is not valid", 1},
		{500, "", fault.Unavailable, "status 500", 3},
		{503, "", fault.Unavailable, "status 503", 3},
	} {
		t.Run(fmt.Sprint(c.status, c.body), func(t *testing.T) {
			g := fake(t, func(w http.ResponseWriter, r *http.Request) {
				w.WriteHeader(c.status)
				fmt.Fprint(w, c.body)
			})
			_, err := client(t, Options{Servers: []string{g.URL}, Retries: 2}).Image(t.Context(), ann, "t", "i1")
			if !fault.Is(err, c.kind) || !strings.Contains(fault.TextOf(err), c.part) || len(g.requests()) != c.tries {
				t.Errorf("%v after %d tries", err, len(g.requests()))
			}
		})
	}
}

// TestNextServerIsUsed tests that the next server is used if one is down.
func TestNextServerIsUsed(t *testing.T) {
	g := fake(t, func(w http.ResponseWriter, r *http.Request) { fmt.Fprintf(w, answered, "public", "null") })
	down := httptest.NewServer(nil)
	down.Close()
	if i, err := client(t, Options{Servers: []string{down.URL, g.URL}, Retries: 1}).Image(t.Context(), ann, "t",
		"i1"); err != nil || i.ID != "i1" {
		t.Errorf("%+v %v", i, err)
	}
	_, err := client(t, Options{Servers: []string{down.URL}, Retries: 1}).Image(t.Context(), ann, "t", "i1")
	if !fault.Is(err, fault.Unavailable) || !strings.Contains(fault.TextOf(err),
		"the image service at "+down.URL+" does not answer: ") {
		t.Errorf("%v", err)
	}
}

// TestServerWithoutResponse tests that the time of a request is limited if the server does not respond.
func TestServerWithoutResponse(t *testing.T) {
	const retries = 1000
	var requests atomic.Int64
	g := fake(t, func(w http.ResponseWriter, r *http.Request) { requests.Add(1); <-r.Context().Done() })
	c := client(t, Options{Servers: []string{g.URL}, Retries: retries, HTTP: &http.Client{Timeout: 20 * time.Millisecond}})
	c.time = 100 * time.Millisecond
	if _, err := c.Image(t.Context(), ann, "t", "i1"); !fault.Is(err, fault.Unavailable) ||
		!strings.Contains(fault.TextOf(err), "does not answer") {
		t.Errorf("%v", err)
	}
	if requests.Load() >= retries {
		t.Error("all retries were sent")
	}
	if c, err := New(Options{Servers: []string{g.URL}, HTTP: &http.Client{Timeout: time.Second}}); err != nil ||
		c.time != maxTime {
		t.Errorf("%v %v", c.time, err)
	}
}

// TestAccountOfTheConfiguration tests that compute uses its own account: with the address from the catalog, and with
// a new token when the old one is rejected.
func TestAccountOfTheConfiguration(t *testing.T) {
	g := fake(t, func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("X-Auth-Token") != "token-2" {
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		fmt.Fprintf(w, answered, "private", `"p1"`)
	})
	signed := 0
	k := fake(t, func(w http.ResponseWriter, r *http.Request) {
		signed++
		w.Header().Set("X-Subject-Token", fmt.Sprint("token-", signed))
		w.WriteHeader(http.StatusCreated)
		fmt.Fprintf(w, `{"token": {"user": {"id": "nova"}, "expires_at": "2999-01-01T00:00:00Z", "catalog": [
			{"type": "image", "endpoints": [{"interface": "public", "region": "R", "url": "http://127.0.0.1:1"}, {"interface": "internal", "region": "R", "url": %q}]}]}}`, g.URL)
	})
	account, err := identity.ServiceCalls{Type: identity.KeystoneAccount, Interfaces: []string{"internal", "public"},
		Region: "R", Keystone: identity.KeystoneOptions{Group: "glance", AuthURL: k.URL, Username: "nova", Password: "p",
			UserDomainID: "default"}}.Account()
	if err != nil {
		t.Fatal(err)
	}
	c := client(t, Options{Account: account})
	if i, err := c.Image(t.Context(), ann, "hers", "i1"); err != nil || i.Owner != "p1" {
		t.Errorf("%+v %v", i, err)
	}
	if _, err := c.Image(t.Context(), identity.Identity{User: "bob", Project: "p2"}, "his", "i1"); !fault.Is(err,
		fault.NotFound) {
		t.Errorf("another project sees it: %v", err)
	}
	for _, r := range g.requests() {
		if token := r.Header.Get("X-Auth-Token"); !strings.HasPrefix(token, "token-") {
			t.Errorf("request with token %q", token)
		}
	}
	if signed != 2 {
		t.Errorf("%d tokens requested", signed)
	}
	g.handle = func(w http.ResponseWriter, r *http.Request) { w.WriteHeader(http.StatusForbidden) }
	if _, err := c.Image(t.Context(), ann, "hers", "i1"); !fault.Is(err, fault.Unavailable) ||
		!strings.Contains(fault.TextOf(err), "does not let the account of [glance]") {
		t.Errorf("%v", err)
	}
}

// TestNameAndPassword tests an account of HTTP Basic authentication: for the record and the data of an image, and with
// a password that is not accepted.
func TestNameAndPassword(t *testing.T) {
	password := "p"
	g := fake(t, func(w http.ResponseWriter, r *http.Request) {
		if name, got, ok := r.BasicAuth(); !ok || name != "nova" || got != password || r.Header.Get("X-User-Id") != "" {
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		fmt.Fprintf(w, answered, "public", "null")
	})
	account, err := identity.ServiceCalls{Type: identity.BasicAccount, Name: "nova", Password: "p"}.Account()
	if err != nil {
		t.Fatal(err)
	}
	c := client(t, Options{Servers: []string{g.URL}, Account: account})
	if i, err := c.Image(t.Context(), ann, "hers", "i1"); err != nil || i.ID != "i1" {
		t.Errorf("%+v %v", i, err)
	}
	body, _, err := c.Download(t.Context(), ann, "hers", "i1", 0)
	if err != nil {
		t.Fatal(err)
	}
	body.Close()
	password = "another"
	_, first := c.Image(t.Context(), ann, "hers", "i1")
	_, _, second := c.Download(t.Context(), ann, "hers", "i1", 0)
	for _, err := range []error{first, second} {
		if !fault.Is(err, fault.Unavailable) || !strings.Contains(fault.TextOf(err), "account of [glance]") ||
			strings.Contains(err.Error(), "placement") {
			t.Errorf("%v", err)
		}
	}
	if _, err := New(Options{Account: account}); !fault.Is(err, fault.Invalid) ||
		!strings.Contains(fault.TextOf(err), "write endpoint_override") {
		t.Errorf("without an address: %v", err)
	}
}

func TestAddressOfTheImageService(t *testing.T) {
	for text, want := range map[string]string{
		"http://g:9292": "http://g:9292", "http://g:9292/": "http://g:9292", "http://g:9292/v2": "http://g:9292",
		"http://g:9292/v2.15/":   "http://g:9292",
		"https://cloud/image/v2": "https://cloud/image", "https://cloud/image": "https://cloud/image",
		"https://cloud/vault": "https://cloud/vault",
	} {
		if got := withoutVersion(text); got != want {
			t.Errorf("%s: %s, want %s", text, got, want)
		}
	}
	for _, o := range []Options{{}, {Servers: []string{"controller:9292"}},
		{Servers: []string{"http://g:9292", "ftp://g"}}} {
		if _, err := New(o); !fault.Is(err, fault.Invalid) || !strings.Contains(fault.TextOf(err), "[glance]") {
			t.Errorf("%+v: %v", o, err)
		}
	}
}

func FuzzImage(f *testing.F) {
	f.Add(fmt.Sprintf(answered, "public", "null"))
	f.Add(`{"id": "i", "status": "active", "hw_numa_nodes": [1]}`)
	f.Fuzz(func(t *testing.T, text string) {
		var i Image
		if json.Unmarshal([]byte(text), &i) == nil && (i.ID == "" || i.Status == "") {
			t.Errorf("%s: %+v", text, i)
		}
	})
}
