package main

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/openberth/berth/api/compute"
	"github.com/openberth/berth/internal/libvirtd"
	"github.com/openberth/berth/internal/testenv"
)

// The guest of a server shuts down by itself: the server becomes SHUTOFF and says why, until it is started again. The
// guest's config drive has the key pair and the user data of the server.
func TestLibvirtGuestShutsDown(t *testing.T) {
	t.Parallel()
	l, d := startLibvirtCloud(t)
	disk := l.path("disk.img")
	must(t, os.WriteFile(disk, libvirtd.PowerOffSector("going down\n"), 0o600))
	image := addImage(t, disk, d.urls["image"])
	flavor, err := d.compute().CreateFlavor(t.Context(), compute.CreateFlavor{Name: "small", VCPUs: 1, RAM: 64, Disk: 1})
	must(t, err)

	post := func(path, body string, into any) {
		t.Helper()
		request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, d.urls["compute"]+"/v2.1"+path,
			strings.NewReader(body))
		must(t, err)
		request.Header.Set("X-Auth-Token", "admin")
		response, err := http.DefaultClient.Do(request)
		must(t, err)
		defer response.Body.Close()
		text, err := io.ReadAll(response.Body)
		must(t, err)
		if err := json.Unmarshal(text, into); err != nil || response.StatusCode >= 300 {
			t.Fatalf("%s: %d %s", path, response.StatusCode, text)
		}
	}
	var pair struct {
		KeyPair struct {
			PublicKey string `json:"public_key"`
		}
	}
	post("/os-keypairs", `{"keypair": {"name": "mine"}}`, &pair)
	var created struct{ Server compute.Server }
	post("/servers", fmt.Sprintf(`{"server": {"name": "web", "flavorRef": %q, "imageRef": %q, "key_name": "mine",
		"user_data": %q}}`, flavor.ID, image, base64.StdEncoding.EncodeToString([]byte("#cloud-config\n"))), &created)
	id := created.Server.ID
	wantDown := func(times int) {
		t.Helper()
		testenv.Until(t, "the server is SHUTOFF", func() (bool, error) {
			s, err := d.compute().Server(t.Context(), id)
			console, _ := os.ReadFile(filepath.Join(l.instances, id, "console.log"))
			return err == nil && s.Status == "SHUTOFF" && strings.Count(string(console), "going down") == times, err
		})
	}
	wantDown(1)
	out, errs, status := output(t, "server", "why", id, "--compute-url", d.urls["compute"])
	if status != 0 || !strings.Contains(out, "has shut down by itself, so the server is stopped") {
		t.Errorf("%d %s%s", status, out, errs)
	}
	drive, err := os.ReadFile(filepath.Join(l.instances, id, "config.iso"))
	must(t, err)
	for _, text := range []string{strings.Fields(pair.KeyPair.PublicKey)[1], "#cloud-config\n"} {
		if !strings.Contains(string(drive), text) {
			t.Errorf("the config drive has no %q", text)
		}
	}
	must(t, d.compute().Act(t.Context(), id, "os-start", nil))
	wantDown(2)
}
