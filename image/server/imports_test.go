package server

import (
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/openberth/berth/image/store"
	"github.com/openberth/berth/image/webdownload"
	"github.com/openberth/berth/internal/testenv"
)

// awaitStatus waits until an image of the project p has a status.
func (f *fixture) awaitStatus(path string, want store.Status) response {
	f.t.Helper()
	return f.awaitStatusAs("u:p", path, want)
}

func (f *fixture) awaitStatusAs(who, path string, want store.Status) response {
	f.t.Helper()
	var w response
	testenv.Until(f.t, "the image becomes "+string(want), func() (bool, error) {
		w = f.want(200, who, "GET", path, "")
		return w.doc["status"] == string(want), errors.New(w.Body.String())
	})
	return w
}

// task returns the last task of an image.
func (f *fixture) task(path string) map[string]any {
	f.t.Helper()
	list := f.want(200, "u:p", "GET", path+"/tasks", "").doc["tasks"].([]any)
	if len(list) != 1 {
		f.t.Fatalf("%d tasks", len(list))
	}
	return list[0].(map[string]any)
}

const direct = `{"method": {"name": "glance-direct"}}`

func TestStagedDataIsImported(t *testing.T) {
	f := start(t)
	w := f.want(201, "u:p", "POST", "/v2/images", `{"container_format": "bare"}`)
	path := "/v2/images/" + fmt.Sprint(w.doc["id"])
	if methods := w.Header().Get("OpenStack-image-import-methods"); methods != "glance-direct,web-download" {
		t.Errorf("methods %q", methods)
	}
	f.want(409, "u:p", "POST", path+"/import", direct)
	f.want(400, "u:p", "PUT", path+"/stage", "", "Content-Type", octetStream)
	f.want(400, "u:p", "PUT", path+"/stage", "data", "Content-Type", octetStream, "X-Openstack-Image-Size", "5")
	f.want(404, "v:q", "PUT", path+"/stage", "data", "Content-Type", octetStream)
	f.want(204, "u:p", "PUT", path+"/stage", "data", "Content-Type", octetStream, "X-Openstack-Image-Size", "4")
	f.restart()
	if w := f.want(200, "u:p", "GET", path, ""); w.doc["status"] != "uploading" || w.doc["size"] != nil {
		t.Errorf("%s", w.Body)
	}
	f.want(409, "u:p", "PUT", path+"/file", "other", "Content-Type", octetStream)
	f.want(409, "u:p", "PUT", path+"/stage", "other", "Content-Type", octetStream)
	f.want(204, "u:p", "GET", path+"/file", "")
	f.want(400, "u:p", "POST", path+"/import", direct) // no disk_format
	f.want(200, "u:p", "PATCH", path, `[{"replace": "/disk_format", "value": "raw"}]`, "Content-Type",
		"application/openstack-images-v2.0-json-patch")
	f.want(409, "u:p", "POST", path+"/import", `{"method": {"name": "web-download", "uri": "http://127.0.0.1/"}}`)
	f.want(202, "u:p", "POST", path+"/import", direct)
	f.awaitStatus(path, store.Active)
	if w := f.want(200, "u:p", "GET", path+"/file", ""); w.Body.String() != "data" {
		t.Errorf("downloaded %q", w.Body)
	}
	if task := f.task(path); task["status"] != "success" || task["type"] != "api_image_import" ||
		task["owner"] != "p" || task["expires_at"] == nil {
		t.Errorf("%v", task)
	}
	f.want(409, "u:p", "POST", path+"/import", direct)
}

// Staged data that is not what the image is declared to be is removed, and the image can be used again.
func TestInvalidStagedDataIsRefused(t *testing.T) {
	f := start(t)
	doc := f.want(201, "u:p", "POST", "/v2/images", `{"disk_format": "qcow2", "container_format": "bare"}`).doc
	path := "/v2/images/" + fmt.Sprint(doc["id"])
	f.want(204, "u:p", "PUT", path+"/stage", "data", "Content-Type", octetStream)
	f.want(202, "u:p", "POST", path+"/import", direct)
	w := f.awaitStatus(path, store.Queued)
	if w.doc["os_glance_failed_import"] != "file" {
		t.Errorf("%s", w.Body)
	}
	if task := f.task(path); task["status"] != "failure" || !strings.Contains(fmt.Sprint(task["message"]), "qcow2") {
		t.Errorf("%v", task)
	}
	if files, err := os.ReadDir(f.dir); err != nil || len(files) != 1 {
		t.Errorf("left: %v %v", files, err)
	}
	f.want(204, "u:p", "PUT", path+"/stage", "more", "Content-Type", octetStream)
}

// web starts a web server whose requests for /slow wait until release is closed.
func web(t *testing.T) (url string, release chan struct{}) {
	t.Helper()
	release = make(chan struct{})
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/image":
			fmt.Fprint(w, "data")
		case "/slow":
			fmt.Fprint(w, "da")
			w.(http.Flusher).Flush()
			select {
			case <-release:
				fmt.Fprint(w, "ta")
			case <-r.Context().Done():
			}
		case "/large":
			w.Header().Set("Content-Length", "2000000")
		default:
			http.NotFound(w, r)
		}
	}))
	t.Cleanup(server.Close)
	return server.URL, release
}

func fromWeb(url string) string { return `{"method": {"name": "web-download", "uri": "` + url + `"}}` }

func TestImageIsImportedFromAWebServer(t *testing.T) {
	f := start(t)
	f.web = webdownload.Rules{Hosts: []string{"127.0.0.1"}}
	f.restart()
	url, release := web(t)
	path := f.create("u:p", "")
	for body, want := range map[string]int{`{}`: 400, `{"method": {"name": "copy-image"}}`: 400,
		`{"method": {"name": "web-download"}}`: 400, fromWeb("file:///etc/passwd"): 400, fromWeb("http://10.0.0.1/"): 400,
		`{"method": {"name": "web-download", "uri": "` + url + `"}, "stores": ["ceph"]}`: 409} {
		f.want(want, "u:p", "POST", path+"/import", body)
	}
	for part, want := range map[string]string{"/none": "status 404", "/large": "image_size_cap"} {
		f.want(202, "u:p", "POST", path+"/import", fromWeb(url+part))
		f.awaitStatus(path, store.Queued)
		if task := f.task(path); task["status"] != "failure" || !strings.Contains(fmt.Sprint(task["message"]), want) {
			t.Errorf("%s: %v", part, task)
		}
	}
	f.want(202, "u:p", "POST", path+"/import", fromWeb(url+"/slow"))
	if w := f.want(200, "u:p", "GET", path, ""); w.doc["status"] != "importing" {
		t.Errorf("%s", w.Body)
	}
	f.want(409, "u:p", "POST", path+"/import", fromWeb(url+"/image"))
	f.want(409, "u:p", "PUT", path+"/file", "x", "Content-Type", octetStream)
	close(release)
	f.awaitStatus(path, store.Active)
	if w := f.want(200, "u:p", "GET", path+"/file", ""); w.Body.String() != "data" {
		t.Errorf("downloaded %q", w.Body)
	}
	f.want(403, "u:p", "GET", "/v2/tasks", "")
	all := f.want(200, "admin", "GET", "/v2/tasks", "").doc["tasks"].([]any)
	if len(all) != 1 {
		t.Fatalf("%v", all)
	}
	id := fmt.Sprint(all[0].(map[string]any)["id"])
	f.want(200, "admin", "GET", "/v2/tasks/"+id, "")
	f.want(404, "admin", "GET", "/v2/tasks/x", "")
	f.want(403, "admin", "POST", "/v2/tasks", `{}`)
}

// The deletion of an image ends its import, and so does the end of the service. A project cannot have more imports than
// are allowed.
func TestImportsEnd(t *testing.T) {
	f := start(t)
	f.web = webdownload.Rules{Hosts: []string{"127.0.0.1"}}
	f.restart()
	url, _ := web(t)
	var paths []string
	for range maxProjectImports {
		path := f.create("u:p", "")
		f.want(202, "u:p", "POST", path+"/import", fromWeb(url+"/slow"))
		paths = append(paths, path)
	}
	f.want(409, "u:p", "POST", f.create("u:p", "")+"/import", fromWeb(url+"/image"))
	other := f.create("v:q", "")
	f.want(202, "v:q", "POST", other+"/import", fromWeb(url+"/image"))
	f.awaitStatusAs("v:q", other, store.Active) // it does not wait for the other project
	f.want(204, "u:p", "DELETE", paths[0], "")
	f.want(404, "u:p", "GET", paths[0], "")
	f.restart()
	for _, path := range paths[1:] {
		if w := f.want(200, "u:p", "GET", path, ""); w.doc["status"] != "queued" {
			t.Errorf("%s", w.Body)
		}
		if task := f.task(path); task["status"] != "failure" || !strings.Contains(fmt.Sprint(task["message"]), "stopped") {
			t.Errorf("%v", task)
		}
	}
	left, err := os.ReadDir(f.dir)
	for _, file := range left {
		if strings.HasSuffix(file.Name(), ".partial") {
			t.Errorf("left: %s", file.Name())
		}
	}
	if err != nil {
		t.Error(err)
	}
}

// Staged data stays when its import ends because the service stops.
func TestStagedDataOutlivesAStop(t *testing.T) {
	f := start(t)
	path := f.create("u:p", "")
	f.want(204, "u:p", "PUT", path+"/stage", "data", "Content-Type", octetStream)
	for range maxImports { // the import waits
		f.imports.slots <- struct{}{}
	}
	f.want(202, "u:p", "POST", path+"/import", direct)
	f.restart()
	f.awaitStatus(path, store.Uploading)
	if task := f.task(path); task["status"] != "failure" || !strings.Contains(fmt.Sprint(task["message"]), "stopped") {
		t.Errorf("%v", task)
	}
	f.want(202, "u:p", "POST", path+"/import", direct)
	f.awaitStatus(path, store.Active)
}

func TestStoresAndWhatThereIsNot(t *testing.T) {
	f := start(t)
	if w := f.want(200, "u:p", "GET", "/v2/info/stores", ""); !strings.Contains(w.Body.String(), `"default":"true"`) {
		t.Errorf("%s", w.Body)
	}
	f.want(403, "u:p", "GET", "/v2/info/stores/detail", "")
	f.want(200, "admin", "GET", "/v2/info/stores/detail", "")
	if w := f.want(404, "u:p", "GET", "/v2/metadefs/namespaces", ""); !strings.Contains(w.Body.String(), "metadata") {
		t.Errorf("%s", w.Body)
	}
	f.methods = []string{"web-download"}
	f.restart()
	f.want(404, "u:p", "PUT", f.create("u:p", "")+"/stage", "data", "Content-Type", octetStream)
	if w := f.want(200, "u:p", "GET", "/v2/info/import", ""); !strings.Contains(w.Body.String(), `["web-download"]`) {
		t.Errorf("%s", w.Body)
	}
}

// TestImportBeginsWhenAnotherEnds begins imports as soon as the last ones of the project are seen to have ended, and
// many at once, of which no more than the limit are admitted.
func TestImportBeginsWhenAnotherEnds(t *testing.T) {
	f := start(t)
	f.web = webdownload.Rules{Hosts: []string{"127.0.0.1"}}
	f.restart()
	url, release := web(t)
	defer close(release)
	path := f.create("u:p", "")
	for range 50 {
		f.want(202, "u:p", "POST", path+"/import", fromWeb(url+"/none"))
		f.awaitStatus(path, store.Queued)
	}
	var paths []string
	for range 3 * maxProjectImports {
		paths = append(paths, f.create("u:p", ""))
	}
	codes := make([]int, len(paths))
	var all sync.WaitGroup
	for i, path := range paths {
		all.Go(func() { codes[i] = f.do("u:p", "POST", path+"/import", strings.NewReader(fromWeb(url+"/slow"))).Code })
	}
	all.Wait()
	admitted := len(slices.DeleteFunc(codes, func(code int) bool { return code != 202 }))
	if admitted != maxProjectImports {
		t.Errorf("%d imports of a project run at once, %d are allowed", admitted, maxProjectImports)
	}
}
