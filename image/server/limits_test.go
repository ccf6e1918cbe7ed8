package server

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/openberth/berth/image/store"
)

const kib = 1 << 10

// unsized is data whose size is known only when it ends.
type unsized struct{ io.Reader }

// upload sends n bytes as the data of an image, and returns the status of the answer.
func (f *fixture) upload(who, path string, n int, sized bool) int {
	f.t.Helper()
	var body io.Reader = strings.NewReader(strings.Repeat("x", n))
	if !sized {
		body = unsized{body}
	}
	return f.do(who, "PUT", path, body, "Content-Type", octetStream).Code
}

// TestImagesOfOneProjectAreLimited checks that a project has at most user_storage_quota bytes, whether the client says
// how many it sends or not, and that other projects, and bytes that were deleted, do not count.
func TestImagesOfOneProjectAreLimited(t *testing.T) {
	for _, sized := range []bool{true, false} {
		f := start(t)
		f.limits.Project = 100 * kib
		f.restart()
		first, second := f.create("u:p", ""), f.create("u:p", "")
		if code := f.upload("u:p", first+"/file", 60*kib, sized); code != http.StatusNoContent {
			t.Fatalf("the first image: %d", code)
		}
		w := f.want(http.StatusRequestEntityTooLarge, "u:p", "PUT", second+"/file", strings.Repeat("x", 41*kib),
			"Content-Type", octetStream)
		if !strings.Contains(w.Body.String(), "user_storage_quota permits 102400") {
			t.Errorf("too much: %s", w.Body)
		}
		if code := f.upload("u:p", second+"/file", 41*kib, sized); code != http.StatusRequestEntityTooLarge {
			t.Errorf("too much, sized %t: %d", sized, code)
		}
		left := f.want(200, "u:p", "GET", strings.Replace(second, "/v2", "/berth/v1", 1)+"/upload", "").doc
		if left["received"] != 0.0 || left["status"] != "queued" {
			t.Errorf("after a refused upload: %v", left)
		}
		if code := f.upload("u:other", f.create("u:other", "")+"/file", 100*kib, sized); code != http.StatusNoContent {
			t.Errorf("another project: %d", code)
		}
		if code := f.upload("u:p", second+"/file", 40*kib, sized); code != http.StatusNoContent {
			t.Errorf("up to the last byte, sized %t: %d", sized, code)
		}
		f.want(204, "u:p", "DELETE", first, "")
		if code := f.upload("u:p", f.create("u:p", "")+"/stage", 60*kib, sized); code != http.StatusNoContent {
			t.Errorf("after an image was deleted: %d", code)
		}
		if code := f.upload("u:p", f.create("u:p", "")+"/stage", 1, sized); code != http.StatusRequestEntityTooLarge {
			t.Errorf("beside staged data: %d", code)
		}
	}
}

// TestUploadsAtTheSameTimeShareTheLimit checks that uploads that run at the same time get no more than the quota
// together, and that the parts of interrupted ones count, also after a restart.
func TestUploadsAtTheSameTimeShareTheLimit(t *testing.T) {
	f := start(t)
	f.limits.Project = 100 * kib
	f.restart()
	var running sync.WaitGroup
	codes := make([]int, 8)
	for n := range codes {
		path := f.create("u:p", "")
		running.Go(func() { codes[n] = f.upload("u:p", path+"/file", 30*kib, n%2 == 0) })
	}
	running.Wait()
	stored := 0
	for _, code := range codes {
		if code == http.StatusNoContent {
			stored++
		} else if code != http.StatusRequestEntityTooLarge {
			t.Errorf("an upload ended with %d", code)
		}
	}
	if stored == 0 || stored > 3 {
		t.Errorf("%d of 8 uploads of 30 KiB were stored with a quota of 100 KiB", stored)
	}

	other := f.create("u:other", "")
	ends := io.MultiReader(strings.NewReader(strings.Repeat("x", 90*kib)), failingReader{})
	f.do("u:other", "PUT", other+"/file", ends, "Content-Type", octetStream)
	f.restart()
	third := f.create("u:other", "")
	if code := f.upload("u:other", third+"/file", 11*kib, true); code != http.StatusRequestEntityTooLarge {
		t.Errorf("beside an interrupted upload: %d", code)
	}
	f.want(204, "u:other", "PUT", other+"/file", strings.Repeat("x", 10*kib), "Content-Type", octetStream,
		"Content-Range", fmt.Sprintf("bytes %d-%d/%d", 90*kib, 100*kib-1, 100*kib))
}

// TestImagesOfOneProjectAreCounted checks images_per_project.
func TestImagesOfOneProjectAreCounted(t *testing.T) {
	f := start(t)
	f.limits.Count = 2
	f.restart()
	first := f.create("u:p", "")
	f.create("u:p", "")
	w := f.want(http.StatusRequestEntityTooLarge, "u:p", "POST", "/v2/images", `{}`)
	if !strings.Contains(w.Body.String(), "project p has 2 images, and images_per_project permits 2") {
		t.Errorf("the refusal: %s", w.Body)
	}
	f.create("u:other", "")
	f.want(204, "u:p", "DELETE", first, "")
	f.create("u:p", "")
}

// TestOwnerOfLargeImageIsLimited checks that an administrator can give away an image beyond the quota of its new
// project, which then gets no more.
func TestOwnerOfLargeImageIsLimited(t *testing.T) {
	f := start(t)
	f.limits = store.Limits{Size: 1 << 20, Project: 100 * kib}
	f.restart()
	first, second := f.create("u:p", ""), f.create("u:q", "")
	f.upload("u:p", first+"/file", 80*kib, true)
	f.upload("u:q", second+"/file", 80*kib, true)
	f.want(200, "admin:admin", "PATCH", first, `[{"op": "replace", "path": "/owner", "value": "q"}]`, "Content-Type",
		patchTypes[0])
	if code := f.upload("u:q", f.create("u:q", "")+"/file", 1, true); code != http.StatusRequestEntityTooLarge {
		t.Errorf("an upload beyond the quota: %d", code)
	}
	if code := f.upload("u:p", f.create("u:p", "")+"/file", 100*kib, true); code != http.StatusNoContent {
		t.Errorf("an upload of the project that has no image any more: %d", code)
	}
}
