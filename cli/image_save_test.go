package cli

import (
	"bytes"
	"crypto/sha512"
	"encoding/hex"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/openberth/berth/fault"
)

// breaking is an image service whose first answers with data end early.
type breaking struct {
	data   []byte
	sum    string
	breaks int      // how many answers end after half of their data
	ranges []string // of the requests
}

func (s *breaking) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if !strings.HasSuffix(r.URL.Path, "/file") {
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprintf(w, `{"id": %q, "name": "one", "size": %d, "os_hash_algo": "sha512", "os_hash_value": %q}`, newID,
			len(s.data), s.sum)
		return
	}
	asked := r.Header.Get("Range")
	s.ranges = append(s.ranges, asked)
	first := 0
	if asked != "" {
		if _, err := fmt.Sscanf(asked, "bytes=%d-", &first); err != nil {
			w.WriteHeader(http.StatusBadRequest)
			return
		}
	}
	part := s.data[first:]
	w.Header().Set("Content-Length", fmt.Sprint(len(part)))
	if asked != "" {
		w.WriteHeader(http.StatusPartialContent)
	}
	if len(s.ranges) <= s.breaks {
		part = part[:len(part)/2]
	}
	_, _ = w.Write(part) // a shorter body than its length ends the connection
}

// An interrupted download continues where it ended, is verified, and takes no space for zeros. Data with another sum is
// removed, and an existing file is kept.
func TestImageSaveContinues(t *testing.T) {
	setVariables(t, nil)
	data := slices.Concat(bytes.Repeat([]byte("x"), 64<<10), make([]byte, 4<<20), []byte("end"))
	own := sha512.Sum512(data)
	service := &breaking{data: data, sum: hex.EncodeToString(own[:]), breaks: 1}
	server := httptest.NewServer(service)
	defer server.Close()
	file := filepath.Join(t.TempDir(), "disk")
	var shown bytes.Buffer
	save := func(c ImageSaveCmd) error {
		c.Image, c.File = newID, file
		return c.Run(&Globals{ImageURL: server.URL, Stdout: io.Discard, Stderr: &shown, HTTP: http.DefaultClient})
	}
	if err := save(ImageSaveCmd{}); err != nil {
		t.Fatal(err)
	}
	if half := fmt.Sprintf("bytes=%d-", len(data)/2); !slices.Equal(service.ranges, []string{"", half}) {
		t.Errorf("ranges %q", service.ranges)
	}
	if !strings.Contains(shown.String(), "(100 %)") {
		t.Errorf("no progress: %s", &shown)
	}
	got, err := os.ReadFile(file)
	if err != nil || !bytes.Equal(got, data) {
		t.Errorf("the file has %d other bytes (%v)", len(got), err)
	}
	var status syscall.Stat_t
	if err := syscall.Stat(file, &status); err != nil || status.Blocks*512 > 1<<20 {
		t.Errorf("the file takes %d bytes (%v)", status.Blocks*512, err)
	}
	if err := save(ImageSaveCmd{}); !fault.Is(err, fault.Conflict) {
		t.Errorf("over an existing file: %v", err)
	}
	shown.Reset()
	service.sum = strings.Repeat("0", 128)
	err = save(ImageSaveCmd{Overwrite: true, Quietness: Quietness{Quiet: true}})
	if !fault.Is(err, fault.Unavailable) || !strings.Contains(err.Error(), "was changed on its way") {
		t.Errorf("with another sum: %v", err)
	}
	if shown.Len() > 0 {
		t.Errorf("--quiet shows %s", &shown)
	}
	left, err := filepath.Glob(file + "*")
	if err != nil || !slices.Equal(left, []string{file}) {
		t.Errorf("left: %v %v", left, err)
	}
}

// The progress is a bar that fits a terminal, and lines elsewhere.
func TestProgress(t *testing.T) {
	for width, want := range map[int]string{
		60: "\rdisk: [#####################.........] 70 of 100 MiB (70 %)\x1b[K",
		40: "\rdisk: [#######...] 70 of 100 MiB (70 %)\x1b[K",
		20: "\rdisk: 70 of 100 MiB (70 %)\x1b[K",
		0:  "disk: 70 of 100 MiB (70 %)\n",
	} {
		var out bytes.Buffer
		p := progress{to: &out, name: "disk", done: 70 << 20, total: 100 << 20, width: width}
		p.show()
		if got := out.String(); got != want {
			t.Errorf("%d columns: %q, want %q", width, got, want)
		}
	}
}
