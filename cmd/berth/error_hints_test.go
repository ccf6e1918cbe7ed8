package main

import (
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// The error for a URL without a service, or with the other service, contains the remedy.
func TestHintsForWrongURLs(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	closed := "http://" + l.Addr().String()
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	d := up(t, conf(t, machine(t, 1, 1)), t.TempDir())
	clouds := writeConfig(t, "clouds.yaml", `clouds: {one: {auth_type: admin_token, auth: {token: admin, endpoint: "`+
		d.urls["compute"]+`/v2.1"}}}`)
	login{"OS_CLIENT_CONFIG_FILE=" + clouds, "OS_CLOUD=one"}.refused(t, nil, []string{
		"the address of the cloud is not that of the Networking API: set network_endpoint_override of cloud one in " +
			clouds}, "network", "list")
	for _, c := range []struct {
		args []string
		want string
	}{
		{[]string{"server", "list", "--compute-url", closed}, closed + " does not answer: dial"},
		{[]string{"server", "list", "--compute-url", closed},
			"start the Compute API there, or correct its URL with --compute-url (or BERTH_COMPUTE_URL)"},
		{[]string{"provider", "list", "--placement-url", closed + "/"},
			"start the Placement API there, or correct its URL with --placement-url"},
		{[]string{"server", "list", "--compute-url", d.urls["placement"]}, "so it is not the Compute API: correct the URL"},
		{[]string{"provider", "list", "--placement-url", d.urls["compute"]}, "so it is not the Placement API: correct the"},
		{[]string{"image", "list", "--image-url", d.urls["compute"]}, "so it is not the Image API: correct the URL"},
		{[]string{"network", "list", "--network-url", d.urls["compute"]}, "so it is not the Networking API: correct the"},
		{[]string{"server", "list", "--compute-url", strings.TrimPrefix(closed, "http://")}, closed + " does not answer"},
	} {
		if _, stderr, status := output(t, c.args...); status != 1 || !strings.Contains(stderr, c.want) {
			t.Errorf("%s: status %d, want %q: %s", c.args, status, c.want, stderr)
		}
	}
}

// A log file that cannot be opened stops the start, and the error contains the remedy. The warning about a mistyped
// option suggests the right one.
func TestMistypedOptions(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "berth.conf")
	text := "[DEFAULT]\nlog_file = " + path + "/x.log\nreport_in_placement = true\n[placement_database]\nconection = " +
		"sqlite://\n[berth]\ndevice_clean_command = " + path + "\n"
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	_, stderr, status := output(t, "up", "--config-file", path)
	for _, want := range []string{`did you mean \"connection\"?`, "it belongs in [pci]", "devices cannot be cleaned",
		"create its directory with write permission"} {
		if status != 1 || !strings.Contains(stderr, want) {
			t.Errorf("status %d, want %q: %s", status, want, stderr)
		}
	}
}

func TestMistypedCommandIsAnError(t *testing.T) {
	t.Parallel()
	for _, args := range [][]string{{"provider", "lst"}, {"devise"}, {"server", "create"}, {"device", "list", "--colour"},
		{"device", "list", "-o", "xml"}, {"server", "create", "x", "--flavor", "f", "--count", "0"}, {"server", "evacuate"},
		{"host", "heal", "h", "--oversubscribe"}, {"candidates", "foo"}, {"candidates", "resources=VCPU"},
		{"provider", "list", "foo"}} {
		stdout, stderr, status := output(t, args...)
		if status != 2 || stderr == "" || strings.Contains(stdout, "panic") {
			t.Errorf("berth %v: status %d, stderr %q", args, status, stderr)
		}
	}
	for want, args := range map[string][]string{
		`did you mean "list"`:                                        {"provider", "lst"},
		"the commands of `berth provider` are list, show":            {"provider", "frobnicate"},
		"the commands of `berth flavor` are create, list, show, set": {"flavor"},
		"the commands of `berth` are launch, server, why":            {"frobnicate"},
		"the commands of `berth placement` are run, db":              {"placement", "frobnicate"},
	} {
		if _, stderr, status := output(t, args...); status != 2 || !strings.Contains(stderr, want) {
			t.Errorf("%v: status %d, no %q in %s", args, status, want, stderr)
		}
	}
}

func TestUnreachableService(t *testing.T) {
	t.Parallel()
	_, stderr, status := output(t, "device", "list", "--compute-url", "http://127.0.0.1:1")
	if status != 1 || !strings.Contains(stderr, "http://127.0.0.1:1 does not answer") {
		t.Errorf("status %d: %s", status, stderr)
	}
}
