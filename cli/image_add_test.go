package cli

import (
	"bytes"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/openberth/berth/fault"
)

// newID is the id of a new image.
const newID = "10000000-0000-4000-8000-00000000000e"

// refusing is an image service that answers uploads with a status and deletions with another one.
type refusing struct {
	upload, remove int
	status         string // of the image
	deleted        []string
}

func (s *refusing) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	_, _ = io.Copy(io.Discard, r.Body)
	w.Header().Set("Content-Type", "application/json")
	switch {
	case r.Method == http.MethodPost:
		w.WriteHeader(http.StatusCreated)
		_, _ = w.Write([]byte(`{"id": "` + newID + `", "status": "queued"}`))
	case r.Method == http.MethodPut:
		w.WriteHeader(s.upload)
		_, _ = w.Write([]byte(`{"error": {"message": "the image is refused"}}`))
	case r.Method == http.MethodDelete:
		s.deleted = append(s.deleted, r.URL.Path)
		w.WriteHeader(s.remove)
	case strings.HasSuffix(r.URL.Path, "/upload"):
		_, _ = w.Write([]byte(`{"received": 0}`))
	default:
		_, _ = w.Write([]byte(`{"id": "` + newID + `", "status": "` + s.status + `"}`))
	}
}

// An image whose data is refused is deleted, if this command has created it. An image that has its data, because the
// answer to an upload was lost, is kept.
func TestRefusedImageIsDeleted(t *testing.T) {
	setVariables(t, nil)
	for name, c := range map[string]struct {
		service refusing
		resume  string
		says    []string // none: success
		deleted []string
	}{
		"refused": {refusing{upload: 400, remove: 204}, "", []string{"the image is refused"},
			[]string{"/v2/images/" + newID}},
		"remains": {refusing{upload: 400, remove: 403}, "", []string{"refused", "berth image delete " + newID},
			[]string{"/v2/images/" + newID}},
		"resumed": {refusing{upload: 400, remove: 204}, newID, []string{"the image is refused"}, nil},
		"other upload": {refusing{upload: 409, remove: 409, status: "saving"}, newID, []string{"the image is refused"},
			nil},
		"answer lost": {refusing{upload: 409, remove: 204, status: "active"}, "", nil, nil},
	} {
		server := httptest.NewServer(&c.service)
		file := filepath.Join(t.TempDir(), "disk")
		if err := os.WriteFile(file, []byte("data"), 0o600); err != nil {
			t.Fatal(err)
		}
		var out bytes.Buffer
		command := ImageAddCmd{Source: file, Format: "raw", Visibility: "shared", Resume: c.resume}
		err := command.Run(&Globals{ImageURL: server.URL, Stdout: &out, Stderr: io.Discard, HTTP: http.DefaultClient})
		server.Close()
		for _, says := range c.says {
			if err == nil || !strings.Contains(err.Error(), says) || fault.Is(err, fault.Unavailable) {
				t.Errorf("%s: %v, want %q", name, err, says)
			}
		}
		if len(c.says) == 0 && err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if !slices.Equal(c.service.deleted, c.deleted) {
			t.Errorf("%s: deleted %v, want %v", name, c.service.deleted, c.deleted)
		}
	}
}
