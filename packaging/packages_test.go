package main

import (
	"archive/tar"
	"compress/gzip"
	"debug/buildinfo"
	"encoding/json"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// Units have what every unit must have; a unit without hardware has no capability and a user of its own.
func TestUnits(t *testing.T) {
	t.Parallel()
	for _, u := range units() {
		text, err := u.text()
		must(t, err)
		for _, line := range []string{"Type=notify", "WatchdogSec=2min", "Restart=on-failure", "ProtectSystem=strict",
			"NoNewPrivileges=yes", "PrivateDevices=yes", "StateDirectory=berth/" + u.Name, "MemoryDenyWriteExecute=yes"} {
			state := strings.HasPrefix(line, "StateDirectory=")
			if strings.Contains(string(text), "\n"+line+"\n") == (state && u.Stateless) {
				t.Errorf("%s has no line %s", u.Unit, line)
			}
		}
		if alone := strings.Contains(string(text), "\nUser=berth\n") &&
			strings.Contains(string(text), "\nCapabilityBoundingSet=\n"); alone == u.Hardware {
			t.Errorf("%s: user or capabilities:\n%s", u.Unit, text)
		}
		for _, c := range u.Capabilities {
			if c.Reason == "" || !strings.Contains(string(text), "# "+c.Name+": "+c.Reason) {
				t.Errorf("%s does not explain %s", u.Unit, c.Name)
			}
		}
	}
}

// Two clones in different directories give the same bytes in every file for every architecture, with other variables
// of Go in the environment.
func TestSameBytes(t *testing.T) {
	if testing.Short() {
		t.Skip("left to make packages-test: takes long")
	}
	dir := memory(t)
	first := filepath.Join(dir, "first")
	must(t, run(first, "", []string{"amd64", "arm64", "ppc64le"}, allKinds()))
	checkContents(t, first)
	clone := filepath.Join(dir, "a directory", "clone")
	must(t, runs(exec.Command("git", "clone", "--quiet", "--shared", "..", clone)))
	second := exec.Command("go", "run", ".", "-out", filepath.Join(dir, "second"))
	second.Dir = filepath.Join(clone, "packaging")
	second.Env = append(os.Environ(), "TZ=Asia/Tokyo", "GOAMD64=v3", "HOSTNAME=other", "TMPDIR="+filepath.Dir(clone))
	must(t, runs(second))
	sums := func(name string) string {
		text, err := os.ReadFile(filepath.Join(dir, name, "SHA256SUMS"))
		must(t, err)
		return string(text)
	}
	if a, b := sums("first"), sums("second"); a != b || strings.Count(a, "\n") != 3*6+1 {
		t.Errorf("the files differ:\n%s\n%s", a, b)
	}
}

// checkContents checks the files of a build.
func checkContents(t *testing.T, dir string) {
	t.Helper()
	one := func(pattern string) string {
		t.Helper()
		found, err := filepath.Glob(filepath.Join(dir, pattern))
		if err != nil || len(found) != 1 {
			t.Fatalf("%s: %v %v", pattern, found, err)
		}
		return found[0]
	}
	deb, err := exec.Command("dpkg-deb", "--contents", one("*_amd64.deb")).Output()
	must(t, err)
	rpm, err := exec.Command("rpm", "-qplv", "--nosignature", one("*.x86_64.rpm")).Output()
	must(t, err)
	for name, list := range map[string]string{"deb": string(deb), "rpm": string(rpm)} {
		for path, mode := range map[string]string{"/usr/bin/berth": "-rwxr-xr-x", "/etc/berth/berth.conf": "-rw-r-----",
			"/etc/berth/agent.conf": "-rw-------", "/usr/lib/systemd/system/berth-agent.service": "-rw-r--r--",
			"/usr/share/man/man1/berth-server.1.gz": "-rw-r--r--",
			"/usr/share/doc/berth/copyright":        "-rw-r--r--", "/usr/share/doc/berth/modules.gz": "-rw-r--r--",
			"/usr/share/bash-completion/completions/berth": "-rw-r--r--"} {
			found := false
			for line := range strings.Lines(list) {
				found = found || strings.HasPrefix(line, mode+" ") && strings.HasSuffix(strings.TrimSpace(line), path) &&
					strings.Contains(strings.ReplaceAll(line, "/", " "), "root")
			}
			if !found {
				t.Errorf("%s has no %s with mode %s of root:\n%s", name, path, mode, list)
			}
		}
	}
	configs, err := exec.Command("dpkg-deb", "--info", one("*_amd64.deb"), "conffiles").Output()
	must(t, err)
	if got := strings.Fields(string(configs)); len(got) != 3 {
		t.Errorf("conffiles: %v", got)
	}
	checkBill(t, one("*_linux_amd64"), one("*_linux_amd64.cdx.json"))
	checkImage(t, one("*_arm64.oci.tar"))
	checkSource(t, one("*_source.tar.gz"))
	must(t, runs(exec.Command("sh", "-c", "cd "+dir+" && sha256sum --strict --check SHA256SUMS")))
}

// checkBill compares a bill of materials with the modules of the binary.
func checkBill(t *testing.T, binary, bill string) {
	t.Helper()
	info, err := buildinfo.ReadFile(binary)
	must(t, err)
	text, err := os.ReadFile(bill)
	must(t, err)
	var doc struct {
		Components []struct {
			Name, Version string
			Licenses      []struct{ License struct{ ID string } }
		}
	}
	must(t, json.Unmarshal(text, &doc))
	if len(doc.Components) != len(info.Deps)+1 || len(info.Deps) < 20 {
		t.Errorf("%d components for %d modules", len(doc.Components), len(info.Deps))
	}
	notices, err := os.ReadFile(binary + ".licences.txt")
	must(t, err)
	for _, c := range doc.Components {
		if len(c.Licenses) == 0 || c.Licenses[0].License.ID == "" || !strings.Contains(string(notices), "\n"+c.Name+"\n") {
			t.Errorf("%s has no licence in the bill of materials or no text: %v", c.Name, c.Licenses)
		}
	}
}

// checkImage checks that a tar file is an OCI layout whose only image is for arm64 and has the program.
func checkImage(t *testing.T, file string) {
	t.Helper()
	parts := map[string][]byte{}
	f, err := os.Open(file)
	must(t, err)
	defer f.Close()
	readTar(t, f, func(name string, data []byte) { parts[name] = data })
	var index struct {
		Manifests []struct {
			Digest   string
			Platform struct{ Architecture string }
		}
	}
	must(t, json.Unmarshal(parts["index.json"], &index))
	if parts["oci-layout"] == nil || len(index.Manifests) != 1 || index.Manifests[0].Platform.Architecture != "arm64" {
		t.Fatalf("index: %s", parts["index.json"])
	}
	blob := func(digest string) []byte { return parts["blobs/"+strings.Replace(digest, ":", "/", 1)] }
	var manifest struct{ Config, Layers json.RawMessage }
	must(t, json.Unmarshal(blob(index.Manifests[0].Digest), &manifest))
	var layers []struct{ Digest string }
	must(t, json.Unmarshal(manifest.Layers, &layers))
	packed, err := gzip.NewReader(strings.NewReader(string(blob(layers[0].Digest))))
	must(t, err)
	sizes := map[string]int{}
	readTar(t, packed, func(name string, data []byte) { sizes[name] = len(data) })
	if sizes["usr/bin/berth"] < 1<<20 || sizes["usr/share/doc/berth/modules"] < 10000 || len(layers) != 1 {
		t.Errorf("%d layers, files of these sizes: %v", len(layers), sizes)
	}
}

// checkSource checks that the source archive has every package that the program needs, without a module cache.
func checkSource(t *testing.T, file string) {
	t.Helper()
	dir := memory(t)
	must(t, runs(exec.Command("tar", "-C", dir, "--strip-components=1", "-xzf", file)))
	list := exec.Command("go", "list", "-mod=vendor", "-deps", "./cmd/berth")
	list.Dir = dir
	list.Env = append(os.Environ(), "GOFLAGS=", "GOPROXY=off", "GOMODCACHE="+filepath.Join(dir, "empty"), "CGO_ENABLED=0")
	out, err := list.CombinedOutput()
	if err != nil || !strings.Contains(string(out), "modernc.org/sqlite\n") {
		t.Errorf("%v\n%.2000s", err, out)
	}
}

// readTar calls a function for each file of an archive.
func readTar(t *testing.T, from io.Reader, each func(name string, data []byte)) {
	t.Helper()
	for r := tar.NewReader(from); ; {
		header, err := r.Next()
		if err == io.EOF {
			return
		}
		must(t, err)
		data, err := io.ReadAll(r)
		must(t, err)
		each(header.Name, data)
	}
}
