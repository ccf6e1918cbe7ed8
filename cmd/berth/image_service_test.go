package main

import (
	"bytes"
	"crypto/sha512"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/openberth/berth/api/compute"
	"github.com/openberth/berth/api/image"
	"github.com/openberth/berth/fault"
	"github.com/openberth/berth/internal/openstackclient"
	"github.com/openberth/berth/internal/testenv"
)

// Debian's openstack client creates, lists, shows, changes, saves and deletes images of `berth up`, and compute uses
// them.
func TestOpenStackClientWithImages(t *testing.T) {
	testenv.Need(t, "the openstack client")
	t.Parallel()
	dir := t.TempDir()
	d := start(t, []string{"placement", "compute", "network", "image"}, "up", "--config-file", conf(t, machine(t, 1, 1)),
		"--data-dir",
		filepath.Join(dir, "data"), "--listen-placement", "127.0.0.1:0", "--listen-compute", "127.0.0.1:0",
		"--listen-network", "127.0.0.1:0", "--listen-image", "127.0.0.1:0")
	openstack := func(args ...string) (string, error) {
		base := []string{"--os-auth-type", "admin_token", "--os-token", "admin", "--os-endpoint", d.urls["image"] + "/v2"}
		out, err := openstackclient.Command(t, append(base, args...)...).CombinedOutput()
		return string(out), err
	}
	works := func(args ...string) string {
		t.Helper()
		out, err := openstack(args...)
		if err != nil {
			t.Fatalf("openstack %v: %v\n%s", args, err, out)
		}
		return out
	}
	file, back := filepath.Join(dir, "disk"), filepath.Join(dir, "back")
	must(t, os.WriteFile(file, []byte("the data of a disk"), 0o600))
	works("image", "create", "disk", "--file", file, "--disk-format", "raw", "--property", "a=b", "--tag", "t")
	var shown struct{ ID, Status, Name string }
	must(t, json.Unmarshal([]byte(works("image", "show", "disk", "-f", "json")), &shown))
	works("image", "set", "disk", "--name", "new", "--property", "os_type=linux")
	if list := works("image", "list", "-f", "value"); strings.TrimSpace(list) != shown.ID+" new active" {
		t.Errorf("list: %q", list)
	}
	works("image", "save", "new", "--file", back)
	if data, err := os.ReadFile(back); err != nil || string(data) != "the data of a disk" {
		t.Errorf("saved %q, %v", data, err)
	}
	flavor, err := d.compute().CreateFlavor(t.Context(), compute.CreateFlavor{Name: "small", VCPUs: 1, RAM: 64, Disk: 1})
	must(t, err)
	_, err = d.compute().CreateServer(t.Context(), compute.CreateServer{Name: "s", Flavor: flavor.ID, Image: shown.ID})
	must(t, err)
	works("image", "delete", "new")
	_, err = d.compute().CreateServer(t.Context(), compute.CreateServer{Name: "s", Flavor: flavor.ID, Image: shown.ID})
	if !fault.Is(err, fault.Invalid) {
		t.Errorf("a server from a deleted image: %v", err)
	}
	if out, err := openstack("image", "create", "bad", "--file", file, "--disk-format", "qcow2"); err == nil ||
		!strings.Contains(out, "no known header") {
		t.Errorf("raw data as qcow2: %v %s", err, out)
	}
}

// haltingSource serves data over HTTP. The first download stops in the middle until the test closes go on.
type haltingSource struct {
	data   []byte
	halted chan struct{} // closed when the first half was sent
	goOn   chan struct{}
	from   []string // the header Range of each download
}

func (s *haltingSource) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.Method == http.MethodHead || r.Header.Get("Range") != "" || len(s.from) > 1 {
		if r.Method != http.MethodHead {
			s.from = append(s.from, r.Header.Get("Range"))
		}
		http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(s.data))
		return
	}
	s.from = append(s.from, "")
	w.Header().Set("Content-Length", fmt.Sprint(len(s.data)))
	if len(s.from) == 1 { // the command reads the beginning to detect the format
		_, _ = w.Write(s.data) // the command ends the download
		return
	}
	if _, err := w.Write(s.data[:len(s.data)/2]); err != nil {
		return
	}
	_ = http.NewResponseController(w).Flush()
	close(s.halted)
	<-s.goOn
}

// An upload from a URL continues where it was when the image service is killed and started again.
func TestUploadContinuesAfterKill(t *testing.T) {
	testenv.Long(t)
	t.Parallel()
	data := make([]byte, 8<<20)
	_, err := io.ReadFull(rand.NewChaCha8([32]byte{1}), data)
	must(t, err)
	source := &haltingSource{data: data, halted: make(chan struct{}), goOn: make(chan struct{})}
	web := httptest.NewServer(source)
	defer web.Close()
	dir, file := t.TempDir(), conf(t, machine(t, 1, 1))
	d := start(t, []string{"image"}, "image", "--config-file", file, "--data-dir", dir, "--listen", "127.0.0.1:0")
	address := strings.TrimPrefix(d.urls["image"], "http://")
	var out, progress testenv.Buffer
	status := make(chan int, 1)
	go func() {
		status <- run([]string{"image", "add", web.URL + "/disk.img", "--image-url", d.urls["image"], "-o", "json"}, &out,
			&progress)
	}()
	<-source.halted
	testenv.Until(t, "half of the data is received", func() (bool, error) {
		partial, err := filepath.Glob(filepath.Join(dir, "images", "*.partial"))
		if err != nil || len(partial) != 1 {
			return false, err
		}
		info, err := os.Stat(partial[0])
		return err == nil && info.Size() > 0, err
	})
	d.kill()
	close(source.goOn)
	d = start(t, []string{"image"}, "image", "--config-file", file, "--data-dir", dir, "--listen", address)
	if got := <-status; got != 0 {
		t.Fatalf("status %d: %s%s\n%s", got, out.String(), progress.String(), d.log)
	}
	var made image.Listed
	must(t, json.Unmarshal([]byte(out.String()), &made))
	sum := sha512.Sum512(data)
	if made.SHA512 != hex.EncodeToString(sum[:]) || made.Name != "disk.img" || made.DiskFormat != "raw" {
		t.Errorf("%+v", made)
	}
	if last := source.from[len(source.from)-1]; !strings.HasPrefix(last, "bytes=") {
		t.Errorf("the last download began at the first byte: %v", source.from)
	}
	if !strings.Contains(progress.String(), "trying again") || !strings.Contains(progress.String(), "100 %") {
		t.Errorf("progress: %s", progress.String())
	}
}
