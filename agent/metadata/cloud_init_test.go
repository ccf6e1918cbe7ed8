package metadata

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"

	"github.com/openberth/berth/agent/configdrive"
	"github.com/openberth/berth/internal/testenv"
)

// asServer is the variable that makes the test program serve metadata at an address.
const asServer = "BERTH_TEST_METADATA"

func TestMain(m *testing.M) {
	if at := os.Getenv(asServer); at != "" {
		s := New(func(context.Context, string, netip.Addr) (configdrive.Server, error) { return booted, nil },
			slog.New(slog.DiscardHandler))
		fmt.Fprintln(os.Stderr, http.ListenAndServe(at, s.handler("n")))
		os.Exit(1)
	}
	os.Exit(m.Run())
}

// booted is the server that TestCloudInit boots.
var booted = configdrive.Server{ID: "5b2c5d0e-55f2-4f5c-8b0e-7d1f0c8f1a2b", Name: "Web 1", KeyName: "ann",
	PublicKey: "ssh-ed25519 AAAA ann@example", Zone: "nova", Metadata: map[string]string{"role": "web"},
	UserData: []byte("#!/bin/sh\necho ran on $(hostname) >/run/user-data\n"),
	Interfaces: []configdrive.Interface{
		{Port: "6b2c5d0e-55f2-4f5c-8b0e-7d1f0c8f1a2b", MAC: "fa:16:3e:00:00:01", MTU: 1450, Network: "n",
			Addresses: []configdrive.Address{{Method: "dhcp", Address: "10.0.0.5", CIDR: "10.0.0.0/22"}}},
		{Port: "7b2c5d0e-55f2-4f5c-8b0e-7d1f0c8f1a2b", MAC: "fa:16:3e:00:00:02", MTU: 1500, Network: "n1",
			Addresses: []configdrive.Address{{Method: "static", Address: "10.9.0.5", CIDR: "10.9.0.0/24"}}}}}

// TestCloudInit lets Debian's cloud-init boot without a config drive: it finds the metadata service by itself and has
// from it what a drive has: host name, key, addresses, user data, metadata.
func TestCloudInit(t *testing.T) {
	testenv.Need(t, "apt-get", "unshare", "dnsmasq", "curl", "dhclient")
	cache := os.Getenv("LAB_CACHE")
	if cache == "" {
		var err error
		if cache, err = os.UserCacheDir(); err != nil {
			cache = os.TempDir()
		}
	}
	root := filepath.Join(t.TempDir(), "root")
	if err := os.Mkdir(root, 0o755); err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), "sh", "../configdrive/testdata/boot-with-cloud-init.sh", "none",
		filepath.Join(cache, "cloud-init"), root, booted.Interfaces[0].MAC, booted.Interfaces[1].MAC)
	cmd.Env = append(os.Environ(), asServer+"=169.254.169.254:80", "METADATA="+os.Args[0])
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	var stderr strings.Builder
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil || stderr.Len() > 0 {
		t.Fatalf("%v; the test needs root and Debian: %s\n%s", err, stderr.String(), out)
	}
	for _, want := range []string{`(?s)== status\nstatus: done\n.*\nDataSourceOpenStackLocal \[net,ver=2\]\n`,
		`== hostname\nweb-1\nweb-1\n`, `== keys\nssh-ed25519 AAAA ann@example\n`, `iface eth0 inet dhcp\n`,
		`inet 10\.9\.0\.5/24 `, `== user-data\nran on web-1\n`, `(?s)== metadata\n.*"role": "web"`,
		`(?s)== warnings\n$`} {
		if !regexp.MustCompile(want).Match(out) {
			t.Errorf("no match for %s in:\n%s", want, out)
		}
	}
}
