package configdrive

import (
	"bytes"
	"flag"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/openberth/berth/fault"
	"github.com/openberth/berth/internal/testenv"
)

var update = flag.Bool("update", false, "write the golden files")

// full is a server with everything.
var full = Server{ID: "5b2c5d0e-55f2-4f5c-8b0e-7d1f0c8f1a2b", Name: "Web server_1", KeyName: "ann",
	PublicKey: "ssh-ed25519 AAAA ann@example", UserData: []byte("#cloud-config\n"), AdminPass: "s3cret",
	Metadata: map[string]string{"role": "web"}, Project: "p1", Zone: "nova", Index: 2,
	Interfaces: []Interface{
		{Port: "6b2c5d0e-55f2-4f5c-8b0e-7d1f0c8f1a2b", MAC: "fa:16:3e:00:00:01", MTU: 1450, // addresses not known
			Device: Device{Tag: "uplink", Place: "0000:01:00.0"}},
		{Port: "7b2c5d0e-55f2-4f5c-8b0e-7d1f0c8f1a2b", MAC: "fa:16:3e:00:00:02", MTU: 1500, Network: "n1",
			Device: Device{HostVLAN: 5, Trusted: true},
			Addresses: []Address{
				{Method: "static", Address: "10.0.0.5", CIDR: "10.0.0.0/22", Gateway: "10.0.0.1",
					Routes: []Route{{"192.168.7.0/24", "10.0.0.254"}}, DNS: []string{"10.0.0.2", "10.0.0.3"}},
				{Method: "static", Address: "2001:db8::5", CIDR: "2001:db8::/64", Gateway: "2001:db8::1",
					Routes: []Route{{"2001:db8:7::/48", "2001:db8::fe"}}, DNS: []string{"2001:db8::53"}}}},
		{Port: "9b2c5d0e-55f2-4f5c-8b0e-7d1f0c8f1a2b", MAC: "fa:16:3e:00:00:04", Network: "n3",
			Addresses: []Address{}, Device: Device{Place: "0000:03:00.0"}}, // not among the devices: it has no tag
		{Port: "8b2c5d0e-55f2-4f5c-8b0e-7d1f0c8f1a2b", MAC: "fa:16:3e:00:00:03", VLAN: 7, Network: "n2",
			Addresses: []Address{{Method: "dhcp", Address: "10.1.0.5", CIDR: "10.1.0.0/24", DNS: []string{"10.0.0.2"}},
				{Method: "slaac", Address: "2001:db8:1::5", CIDR: "2001:db8:1::/64"}}}}}

// TestExtracted extracts drives with another program and compares the files with golden files. The program shows names
// as they are stored; Linux shows them in lower case.
func TestExtracted(t *testing.T) {
	testenv.Need(t, "bsdtar")
	for name, s := range map[string]Server{"full": full, "plain": {ID: full.ID, Name: "web"}} {
		t.Run(name, func(t *testing.T) {
			drive, err := Make(s)
			if err != nil {
				t.Fatal(err)
			}
			dir := t.TempDir()
			file := filepath.Join(dir, "drive")
			if err := os.WriteFile(file, drive, 0o600); err != nil {
				t.Fatal(err)
			}
			script := `set -e; mkdir "$2"; bsdtar -x -f "$1" -C "$2"; blkid -s LABEL -o value "$1"`
			out, err := exec.Command("sh", "-c", script, "sh", file, filepath.Join(dir, "out")).CombinedOutput()
			if err != nil || strings.TrimSpace(string(out)) != "config-2" {
				t.Fatalf("%v: %s", err, out)
			}
			compare(t, filepath.Join(dir, "out"), filepath.Join("testdata", name))
		})
	}
}

// compare checks that two directories have the same files.
func compare(t *testing.T, got, want string) {
	t.Helper()
	if *update {
		if err := os.CopyFS(want, os.DirFS(got)); err != nil {
			t.Fatal(err)
		}
	}
	for _, pair := range [][2]string{{got, want}, {want, got}} {
		if err := filepath.WalkDir(pair[0], func(path string, e os.DirEntry, err error) error {
			if err != nil || e.IsDir() {
				return err
			}
			other := filepath.Join(pair[1], strings.TrimPrefix(path, pair[0]))
			one, err1 := os.ReadFile(path)
			two, err2 := os.ReadFile(other)
			if err1 != nil || err2 != nil || !bytes.Equal(one, two) {
				t.Errorf("%s and %s: %v %v\n%s\n%s", path, other, err1, err2, one, two)
			}
			return nil
		}); err != nil {
			t.Error(err)
		}
	}
}

func TestSameServerSameDrive(t *testing.T) {
	one, err1 := Make(full)
	two, err2 := Make(full)
	if err1 != nil || err2 != nil || !bytes.Equal(one, two) {
		t.Errorf("%v %v", err1, err2)
	}
	big := full
	big.UserData = make([]byte, maxUserData+1)
	if _, err := Make(big); !fault.Is(err, fault.Invalid) {
		t.Errorf("large user data: %v", err)
	}
}

func TestHostName(t *testing.T) {
	for name, want := range map[string]string{"web": "web", "Web server_1.example": "web-server-1-example",
		"--x--": "x", "日本": "server-i", "": "server-i", strings.Repeat("a", 70): strings.Repeat("a", 63)} {
		if got := HostName(Server{ID: "i", Name: name}); got != want {
			t.Errorf("%q: %q, want %q", name, got, want)
		}
	}
}

// FuzzMake puts any texts into a server: the drive has the size of whole sectors, and each file is within it.
func FuzzMake(f *testing.F) {
	f.Add("web", "key", []byte("data"))
	f.Fuzz(func(t *testing.T, name, key string, data []byte) {
		drive, err := Make(Server{ID: full.ID, Name: name, KeyName: key, PublicKey: key, UserData: data})
		if err != nil {
			return
		}
		if len(drive)%sector != 0 || len(data) > 0 && !bytes.Contains(drive, data) {
			t.Errorf("%d bytes", len(drive))
		}
	})
}
