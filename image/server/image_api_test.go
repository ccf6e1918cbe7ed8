package server

import (
	"bytes"
	"crypto/sha512"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/openberth/berth/api/edge"
	"github.com/openberth/berth/api/identity"
	"github.com/openberth/berth/image/store"
	"github.com/openberth/berth/image/webdownload"
)

// fixture is a service on a new directory.
type fixture struct {
	t       *testing.T
	dir     string
	handler http.Handler
	imports *Imports
	web     webdownload.Rules
	methods []string
	limits  store.Limits
}

func start(t *testing.T) *fixture {
	f := &fixture{t: t, dir: t.TempDir(), methods: []string{glanceDirect, webDownload},
		limits: store.Limits{Size: 1 << 20}}
	t.Cleanup(func() { f.imports.Close() })
	f.restart()
	return f
}

// restart starts the service again on its directory.
func (f *fixture) restart() {
	f.t.Helper()
	if f.imports != nil {
		f.imports.Close()
	}
	st, err := store.Open(f.dir, slog.New(slog.DiscardHandler))
	if err != nil {
		f.t.Fatal(err)
	}
	f.imports = NewImports(st, webdownload.Client{Rules: f.web}, f.limits, slog.New(slog.DiscardHandler))
	f.handler = New(Options{Store: st, Limits: f.limits, Imports: f.imports, Methods: f.methods,
		Options: edge.Options{Authenticate: identity.NoAuth2, Log: slog.New(slog.DiscardHandler)}})
}

// response is an answer with its decoded body.
type response struct {
	*httptest.ResponseRecorder
	doc map[string]any
}

// do sends a request as USER:PROJECT of noauth2. headers are name, value pairs.
func (f *fixture) do(who, method, path string, body io.Reader, headers ...string) response {
	f.t.Helper()
	r := httptest.NewRequest(method, path, body)
	r.Header.Set("X-Auth-Token", who)
	for i := 0; i < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	w := response{ResponseRecorder: httptest.NewRecorder()}
	f.handler.ServeHTTP(w, r)
	if strings.HasPrefix(w.Header().Get("Content-Type"), "application/json") {
		if err := json.Unmarshal(w.Body.Bytes(), &w.doc); err != nil {
			f.t.Fatalf("%s %s: %v: %s", method, path, err, w.Body)
		}
	}
	return w
}

// want sends a request and checks the status of its answer.
func (f *fixture) want(status int, who, method, path, body string, headers ...string) response {
	f.t.Helper()
	w := f.do(who, method, path, strings.NewReader(body), headers...)
	if w.Code != status {
		f.t.Fatalf("%s %s %s: %d %s, want %d", who, method, path, w.Code, w.Body, status)
	}
	if text, _ := w.doc["error"].(map[string]any); status >= 400 && (text["message"] == "" || text["message"] == nil) {
		f.t.Errorf("%s %s: no message in %s", method, path, w.Body)
	}
	return w
}

// create creates an image without data and returns its path.
func (f *fixture) create(who, more string) string {
	f.t.Helper()
	doc := f.want(201, who, "POST", "/v2/images", `{"disk_format": "raw", "container_format": "bare"`+more+`}`).doc
	return "/v2/images/" + fmt.Sprint(doc["id"])
}

const octetStream = "application/octet-stream"

func TestImageFromCreateToDelete(t *testing.T) {
	f := start(t)
	path := f.create("u:p", `, "name": "small", "min_disk": 1, "os_type": "linux", "tags": ["b", "a", "b"]`)
	w := f.want(200, "u:p", "GET", path, "")
	for name, want := range map[string]string{"status": "queued", "name": "small", "min_disk": "1", "os_type": "linux",
		"tags": "[a b]", "owner": "p", "visibility": "shared", "size": "<nil>", "checksum": "<nil>", "file": path + "/file"} {
		if got := fmt.Sprint(w.doc[name]); got != want {
			t.Errorf("%s is %s, want %s", name, got, want)
		}
	}
	f.want(204, "u:p", "GET", path+"/file", "")
	f.want(204, "u:p", "PUT", path+"/file", "data", "Content-Type", octetStream)
	sum := sha512.Sum512([]byte("data"))
	w = f.want(200, "u:p", "GET", path, "")
	for name, want := range map[string]string{"status": "active", "size": "4", "virtual_size": "4",
		"checksum": "8d777f385d3dfec8815d20f7496026dc", "os_hash_algo": "sha512",
		"os_hash_value": hex.EncodeToString(sum[:])} {
		if got := fmt.Sprint(w.doc[name]); got != want {
			t.Errorf("%s is %s, want %s", name, got, want)
		}
	}
	f.restart()
	if w := f.want(200, "u:p", "GET", path+"/file", ""); w.Body.String() != "data" {
		t.Errorf("downloaded %q", w.Body)
	}
	if w := f.want(206, "u:p", "GET", path+"/file", "", "Range", "bytes=2-"); w.Body.String() != "ta" {
		t.Errorf("downloaded %q", w.Body)
	}
	f.want(409, "u:p", "PUT", path+"/file", "other", "Content-Type", octetStream)
	f.want(204, "u:p", "DELETE", path, "")
	f.want(404, "u:p", "GET", path, "")
	left, err := os.ReadDir(f.dir)
	if err != nil || len(left) != 1 || left[0].Name() != strings.TrimPrefix(path, "/v2/images/")+".deleted" {
		t.Errorf("left: %v, %v", left, err)
	}
}

// A body that ends early leaves what was received, also over a restart, and the client continues there.
func TestUploadIsContinued(t *testing.T) {
	f := start(t)
	path := f.create("u:p", "")
	lost := io.MultiReader(strings.NewReader("first "), failingReader{})
	if w := f.do("u:p", "PUT", path+"/file", lost, "Content-Type", octetStream); w.Code != 400 {
		t.Fatalf("%d %s", w.Code, w.Body)
	}
	upload := strings.Replace(path, "/v2/", "/berth/v1/", 1) + "/upload"
	for range 2 {
		w := f.want(200, "u:p", "GET", upload, "")
		if fmt.Sprintf("%v %v", w.doc["received"], w.doc["status"]) != "6 queued" {
			t.Fatalf("%s", w.Body)
		}
		f.restart()
	}
	f.want(409, "u:p", "PUT", path+"/file", "x", "Content-Type", octetStream, "Content-Range", "bytes 7-7/8")
	f.want(400, "u:p", "PUT", path+"/file", "x", "Content-Type", octetStream, "Content-Range", "bytes 6-7/9")
	f.want(503, "u:p", "PUT", path+"/file", "sec", "Content-Type", octetStream, "Content-Range", "bytes 6-11/12")
	f.want(204, "u:p", "PUT", path+"/file", "ond", "Content-Type", octetStream, "Content-Range", "bytes 9-11/12")
	sum := sha512.Sum512([]byte("first second"))
	w := f.want(200, "u:p", "GET", path, "")
	if w.doc["os_hash_value"] != hex.EncodeToString(sum[:]) || fmt.Sprint(w.doc["size"]) != "12" {
		t.Errorf("%s", w.Body)
	}
}

// failingReader is a connection that was lost.
type failingReader struct{}

func (failingReader) Read([]byte) (int, error) { return 0, io.ErrUnexpectedEOF }

// Data that is not what the image is declared to be is refused, and nothing of it stays.
func TestDataIsInspected(t *testing.T) {
	f := start(t)
	path := f.create("u:p", "")
	backed := make([]byte, 512)
	copy(backed, "QFI\xfb\x00\x00\x00\x03\x00\x00\x00\x00\x00\x00\x01\x00")
	f.want(400, "u:p", "PUT", path+"/file", string(backed), "Content-Type", octetStream)
	f.want(400, "u:p", "PUT", path+"/file", "", "Content-Type", octetStream)
	f.want(400, "u:p", "PUT", path+"/file", "\n#x\n\nversion=1\nRW 1 FLAT \"/a\" 0\n", "Content-Type", octetStream)
	f.want(413, "u:p", "PUT", path+"/file", strings.Repeat("x", 1<<20+1), "Content-Type", octetStream)
	endless := io.MultiReader(bytes.NewReader(make([]byte, 1<<20)), strings.NewReader("more"))
	if w := f.do("u:p", "PUT", path+"/file", endless, "Content-Type", octetStream); w.Code != 413 {
		t.Errorf("without a size: %d %s", w.Code, w.Body)
	}
	f.want(415, "u:p", "PUT", path+"/file", "data", "Content-Type", "text/plain")
	if files, err := filepath.Glob(filepath.Join(f.dir, "*.partial")); err != nil || len(files) > 0 {
		t.Errorf("left: %v, %v", files, err)
	}
	if w := f.want(200, "u:p", "GET", path, ""); w.doc["status"] != "queued" {
		t.Errorf("%s", w.Body)
	}
	f.want(204, "u:p", "PUT", path+"/file", "data", "Content-Type", octetStream)
	// The header is complete, and the tables behind it are missing.
	copy(backed[8:], make([]byte, 8))
	copy(backed[20:], "\x00\x00\x00\x10\x00\x00\x00\x00\x40\x00\x00\x00")
	copy(backed[100:], "\x00\x00\x00\x68")
	doc := f.want(201, "u:p", "POST", "/v2/images", `{"disk_format": "qcow2", "container_format": "bare"}`).doc
	path = "/v2/images/" + fmt.Sprint(doc["id"])
	w := f.want(400, "u:p", "PUT", path+"/file", string(backed), "Content-Type", octetStream)
	if !strings.Contains(w.Body.String(), "table of reference counts") {
		t.Errorf("truncated: %s", w.Body)
	}
	backed[23] = 63
	if w := f.want(400, "u:p", "PUT", path+"/file", string(backed), "Content-Type", octetStream); !strings.Contains(
		w.Body.String(), "cluster_bits is 63") {
		t.Errorf("cluster_bits: %s", w.Body)
	}
	if files, err := filepath.Glob(filepath.Join(f.dir, "*.partial")); err != nil || len(files) > 0 {
		t.Errorf("left: %v, %v", files, err)
	}
}

const patchType = "application/openstack-images-v2.1-json-patch"

func TestChanges(t *testing.T) {
	f := start(t)
	path := f.create("u:p", `, "os_type": "linux"`)
	for _, v := range []struct {
		who, patch string
		status     int
	}{
		{"u:p", `[{"op": "replace", "path": "/name", "value": "new"}, {"op": "add", "path": "/a~1b", "value": "c"}]`, 200},
		{"u:p", `[{"op": "remove", "path": "/os_type"}, {"op": "replace", "path": "/tags", "value": ["t"]}]`, 200},
		{"u:p", `[{"op": "remove", "path": "/os_type"}]`, 409},
		{"u:p", `[{"op": "replace", "path": "/unknown", "value": "x"}]`, 409},
		{"u:p", `[{"op": "replace", "path": "/status", "value": "active"}]`, 403},
		{"u:p", `[{"op": "remove", "path": "/name"}]`, 403},
		{"u:p", `[{"op": "replace", "path": "/id", "value": "x"}]`, 403},
		{"u:p", `[{"op": "replace", "path": "/owner", "value": "q"}]`, 403},
		{"u:p", `[{"op": "replace", "path": "/visibility", "value": "public"}]`, 403},
		{"u:p", `[{"op": "replace", "path": "/visibility", "value": "secret"}]`, 400},
		{"u:p", `[{"op": "replace", "path": "/min_disk", "value": -1}]`, 400},
		{"u:p", `[{"op": "move", "path": "/name"}]`, 400},
		{"u:p", `[{"op": "add", "path": "/a/b", "value": "x"}]`, 400},
		{"u:p", `{}`, 400},
		{"v:q", `[]`, 404},
		{"admin", `[{"op": "replace", "path": "/visibility", "value": "public"}]`, 200},
		{"v:q", `[]`, 403},
		{"u:p", `[{"op": "replace", "path": "/protected", "value": true}]`, 200},
	} {
		f.want(v.status, v.who, "PATCH", path, v.patch, "Content-Type", patchType)
	}
	f.want(415, "u:p", "PATCH", path, `[]`, "Content-Type", "application/json")
	f.want(403, "u:p", "DELETE", path, "")
	f.want(204, "u:p", "PUT", path+"/tags/new", "")
	f.want(204, "u:p", "DELETE", path+"/tags/t", "")
	f.want(404, "u:p", "DELETE", path+"/tags/t", "")
	w := f.want(200, "v:q", "GET", path, "")
	for name, want := range map[string]string{"name": "new", "a/b": "c", "os_type": "<nil>", "tags": "[new]",
		"visibility": "public", "protected": "true"} {
		if got := fmt.Sprint(w.doc[name]); got != want {
			t.Errorf("%s is %s, want %s", name, got, want)
		}
	}
}

func TestMembers(t *testing.T) {
	f := start(t)
	path := f.create("u:p", "")
	f.want(404, "v:q", "GET", path, "")
	f.want(200, "u:p", "POST", path+"/members", `{"member": "q"}`)
	f.want(409, "u:p", "POST", path+"/members", `{"member": "q"}`)
	f.want(200, "v:q", "GET", path, "")
	f.want(403, "v:q", "POST", path+"/members", `{"member": "r"}`)
	list := func(query string) int {
		return len(f.want(200, "v:q", "GET", "/v2/images"+query, "").doc["images"].([]any))
	}
	if before, pending := list(""), list("?member_status=pending"); before != 0 || pending != 1 {
		t.Errorf("%d images, %d pending", before, pending)
	}
	f.want(403, "u:p", "PUT", path+"/members/q", `{"status": "accepted"}`)
	f.want(400, "v:q", "PUT", path+"/members/q", `{"status": "perhaps"}`)
	f.want(200, "v:q", "PUT", path+"/members/q", `{"status": "accepted"}`)
	if after := list(""); after != 1 {
		t.Errorf("%d images after the image was accepted", after)
	}
	if w := f.want(200, "v:q", "GET", path+"/members", ""); len(w.doc["members"].([]any)) != 1 {
		t.Errorf("%s", w.Body)
	}
	for _, schema := range []string{"member", "members", "task", "tasks"} {
		f.want(200, "u:p", "GET", "/v2/schemas/"+schema, "")
	}
	shared := f.want(200, "v:q", "GET", path+"/members/q", "").doc
	f.want(200, "u:p", "PATCH", path, `[{"op": "add", "path": "/a", "value": "b"}]`, "Content-Type", patchTypes[0])
	if again := f.want(200, "v:q", "GET", path+"/members/q", "").doc; again["created_at"] != shared["created_at"] ||
		again["updated_at"] != shared["updated_at"] || again["updated_at"] == "0001-01-01T00:00:00Z" {
		t.Errorf("a change of the image changes the member: %v, before %v", again, shared)
	}
	f.want(404, "u:p", "GET", path+"/members/r", "")
	f.want(204, "u:p", "DELETE", path+"/members/q", "")
	f.want(404, "v:q", "GET", path, "")
}

func TestDeactivated(t *testing.T) {
	f := start(t)
	path := f.create("u:p", "")
	f.want(403, "admin", "POST", path+"/actions/deactivate", "")
	f.want(204, "u:p", "PUT", path+"/file", "data", "Content-Type", octetStream)
	f.want(404, "v:q", "POST", path+"/actions/deactivate", "")
	f.want(204, "u:p", "POST", path+"/actions/deactivate", "")
	f.want(403, "u:p", "GET", path+"/file", "")
	f.want(200, "admin", "GET", path+"/file", "")
	f.want(204, "u:p", "POST", path+"/actions/reactivate", "")
	f.want(200, "u:p", "GET", path+"/file", "")
	f.want(204, "admin", "POST", path+"/actions/deactivate", "")
	f.want(404, "admin", "POST", path+"/actions/explode", "")
}

// A list is filtered, sorted and paged; its pages have each image once.
func TestLists(t *testing.T) {
	f := start(t)
	for n := range 7 {
		f.create("u:p", fmt.Sprintf(`, "name": "i%d", "kind": "k%d", "tags": ["t%d"]`, n, n%2, n%3))
	}
	f.create("v:q", `, "name": "other"`)
	f.create("admin", `, "name": "everybody", "visibility": "public"`)
	f.create("u:p", `, "name": "hidden", "os_hidden": true`)
	names := func(who, query string) (all []string) {
		for path := "/v2/images" + query; path != ""; {
			doc := f.want(200, who, "GET", path, "").doc
			for _, i := range doc["images"].([]any) {
				all = append(all, fmt.Sprint(i.(map[string]any)["name"]))
			}
			path, _ = doc["next"].(string)
		}
		return all
	}
	for query, want := range map[string]string{
		"?sort=name:asc":                      "[everybody i0 i1 i2 i3 i4 i5 i6]",
		"?sort=name:desc&limit=3":             "[i6 i5 i4 i3 i2 i1 i0 everybody]",
		"?sort_key=name&sort_dir=asc&limit=1": "[everybody i0 i1 i2 i3 i4 i5 i6]",
		"?sort=name:asc&kind=k1":              "[i1 i3 i5]",
		"?sort=name:asc&tag=t0&limit=2":       "[i0 i3 i6]",
		"?name=i3":                            "[i3]",
		"?sort=name:asc&name=in:i3,i5":        "[i3 i5]",
		"?name=in:%22i3%22,%22a,b%22":         "[i3]",
		"?os_hidden=False&name=hidden":        "[]",
		"?visibility=public":                  "[everybody]",
		"?os_hidden=true":                     "[hidden]",
		"?created_at=gt:2999-01-01T00:00:00":  "[]",
		"?status=active":                      "[]",
		"?limit=0":                            "[]",
	} {
		if got := fmt.Sprint(names("u:p", query)); got != want {
			t.Errorf("%s: %s, want %s", query, got, want)
		}
	}
	if all := names("admin", ""); !slices.Contains(all, "other") || len(all) != 9 {
		t.Errorf("an administrator sees %v", all)
	}
	for _, query := range []string{"limit=x", "marker=x", "sort=x", "sort=name:up", "visibility=x", "size_min=x",
		"created_at=x", "member_status=x", "os_hidden=x", "name=in:a%22b", "sort=name&sort_key=id"} {
		f.want(400, "u:p", "GET", "/v2/images?"+query, "")
	}
}

func TestCreateIsChecked(t *testing.T) {
	f := start(t)
	for body, status := range map[string]int{
		`{"disk_format": "vmdk"}`: 400, `{"container_format": "tar"}`: 400, `{"status": "active"}`: 403,
		`{"id": "x"}`: 400, `{"owner": "q"}`: 403, `{"visibility": "public"}`: 403, `{"prop": 1}`: 400, `{"name": 1}`: 400,
		`{"min_ram": "1"}`: 400, `{"protected": "yes"}`: 400, `{"tags": [1]}`: 400, `[]`: 400, `{} {}`: 400, `{`: 400,
		`{"os_glance_x": "y"}`: 403,
	} {
		f.want(status, "u:p", "POST", "/v2/images", body)
	}
	id := "70a599e0-31e7-49b7-b260-868f441e862b"
	f.want(201, "u:p", "POST", "/v2/images", `{"id": "`+id+`"}`)
	f.want(409, "u:p", "POST", "/v2/images", `{"id": "`+id+`"}`)
	f.want(400, "u:p", "PUT", "/v2/images/"+id+"/file", "data", "Content-Type", octetStream) // no disk_format
	f.want(401, "", "GET", "/v2/images", "")
	f.want(404, "u:p", "GET", "/v2/nothing", "")
	f.want(405, "u:p", "DELETE", "/v2/images", "")
	f.want(300, "", "GET", "/", "")
	f.want(200, "u:p", "GET", "/v2/schemas/image", "")
}

// An image whose data cannot be read is not answered as one that does not exist: a server that needs it would be given
// up.
func TestUnreadableImageIsNotMissing(t *testing.T) {
	f := start(t)
	path := f.create("u:p", "")
	f.want(204, "u:p", "PUT", path+"/file", "data", "Content-Type", octetStream)
	file := filepath.Join(f.dir, strings.TrimPrefix(path, "/v2/images/")+".data")
	if err := os.Rename(file, file+"-away"); err != nil {
		t.Fatal(err)
	}
	f.restart()
	f.want(503, "u:p", "GET", path, "")
	f.want(503, "u:p", "GET", path+"/file", "")
	if err := os.Rename(file+"-away", file); err != nil {
		t.Fatal(err)
	}
	f.want(200, "u:p", "GET", path+"/file", "")
}

// The id of a deleted image is not used again: servers and templates may name it, and would get the data of another
// user.
func TestDeletedIDIsNotUsedAgain(t *testing.T) {
	f := start(t)
	path := f.create("u:p", "")
	f.want(204, "u:p", "DELETE", path, "")
	body := `{"id": "` + strings.TrimPrefix(path, "/v2/images/") + `", "visibility": "community"}`
	for range 2 {
		f.want(409, "other:q", "POST", "/v2/images", body)
		f.restart()
	}
	f.want(404, "u:p", "GET", path, "")
}
