package main

import (
	"bytes"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/alecthomas/kong"

	"github.com/openberth/berth/cli"
	"github.com/openberth/berth/fault"
	"github.com/openberth/berth/provider"
)

// The objects of anyService, in the order in which it lists them.
const (
	tenID = "10000000-0000-4000-8000-00000000000a"
	twoID = "20000000-0000-4000-8000-000000000002"
)

// collections are the keys of lists in the answers of all APIs.
var collections = []string{"servers", "flavors", "migrations", "keypairs", "aggregates", "server_groups", "networks",
	"subnets", "ports", "policies", "security_groups", "security_group_rules", "images", "hosts", "devices",
	"resource_providers", "resource_classes", "members", "quotas"}

// anyService answers each request for a list with no objects, or with obj10 and obj2, and each for one object with 404.
func anyService(t *testing.T, empty bool) string {
	objects := []any{}
	for id, name := range map[string]string{tenID: "obj10", twoID: "obj2"} {
		objects = append(objects, map[string]any{"id": id, "uuid": id, "name": name, "host": name, "address": name,
			"root_provider_uuid": id, "status": "ACTIVE", "cidr": "10.0.0.0/24"})
	}
	if empty {
		objects = objects[:0]
	}
	body := map[string]any{"traits": []string{"HW_CPU_X86_AVX2"}}
	for _, key := range collections {
		body[key] = objects
	}
	if !empty {
		pairs := []any{}
		for _, one := range objects {
			name := one.(map[string]any)["name"]
			pairs = append(pairs, map[string]any{"keypair": map[string]any{"name": name, "type": "ssh"}})
		}
		body["keypairs"] = pairs
		body["security_group_rules"], body["migrations"] = []any{}, []any{} // without names
	}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		answer, last := body, r.URL.Path[strings.LastIndexByte(r.URL.Path, '/')+1:]
		known := slices.Contains(collections, strings.ReplaceAll(last, "-", "_")) || slices.Contains([]string{"detail",
			"os-migrations", "os-keypairs", "os-aggregates", "os-server-groups", "os-simple-tenant-usage", "traits"}, last)
		if name := r.URL.Query().Get("name"); name != "" {
			answer = map[string]any{}
			for _, key := range collections {
				answer[key] = slices.DeleteFunc(slices.Clone(objects), func(o any) bool {
					return o.(map[string]any)["name"] != strings.Trim(name, "^$")
				})
			}
		}
		w.Header().Set("Content-Type", "application/json")
		if strings.HasPrefix(r.URL.Path, "/v2/images/") && last == twoID {
			known, answer = true, map[string]any{"id": twoID, "name": "obj2", "status": "active"}
		}
		if !known {
			w.WriteHeader(http.StatusNotFound)
			message := "there is no such object"
			if host, of := strings.CutPrefix(r.URL.Path, "/berth/v1/hosts/"); of { // as compute answers
				host, _, _ = strings.Cut(host, "/")
				message = fault.TextOf(provider.UnknownHost(host, []string{"obj2", "obj10"}))
			}
			answer = map[string]any{"itemNotFound": map[string]any{"code": 404, "message": message}}
		}
		if err := json.NewEncoder(w).Encode(answer); err != nil {
			t.Error(err)
		}
	}))
	t.Cleanup(server.Close)
	return server.URL
}

// client runs a client command in this process, with all services at an address.
func client(t *testing.T, url string, args ...string) (stdout, stderr string, status int) {
	t.Helper()
	var out, errs bytes.Buffer
	status = run(append(args, "--compute-url", url, "--network-url", url, "--image-url", url, "--placement-url", url,
		"--token", "admin"), &out, &errs)
	return out.String(), errs.String(), status
}

// leaves returns the commands without subcommands that call services.
func leaves(t *testing.T) (list []*kong.Node) {
	t.Helper()
	g := grammar{Commands: cli.NewCommands()}
	parser, err := kong.New(&g, kong.Vars{"version": "test"})
	must(t, err)
	for _, leaf := range parser.Model.Leaves(false) {
		if first := strings.Fields(leaf.Path())[0]; first != "agent" && first != "placement" && first != "user" {
			list = append(list, leaf)
		}
	}
	return list
}

// listsOfObject are lists of what one object has; its name is an argument.
var listsOfObject = []string{"qos rule list", "image member list"}

// Every command that lists objects prints [] for none, sorts them with the values of numbers, takes columns and an
// order, and names the columns if one is mistyped.
func TestEveryListFollowsTheRules(t *testing.T) {
	empty, full, seen := anyService(t, true), anyService(t, false), 0
	for _, leaf := range leaves(t) {
		path := strings.Fields(leaf.Path())
		if path[len(path)-1] != "list" || slices.Contains(listsOfObject, leaf.Path()) {
			continue
		}
		seen++
		if out, errs, status := client(t, empty, append(path, "-o", "json")...); status != 0 || out != "[]\n" {
			t.Errorf("%s -o json without objects: status %d, %q %s", leaf.Path(), status, out, errs)
		}
		if _, errs, status := client(t, empty, append(path, "-c", "nope")...); status != 1 ||
			!strings.Contains(errs, `there is no column "nope": the columns are `) {
			t.Errorf("%s -c nope: status %d %s", leaf.Path(), status, errs)
		}
		if _, errs, status := client(t, empty, append(path, "--sort", "nope")...); status != 1 ||
			!strings.Contains(errs, `there is no column "nope"`) {
			t.Errorf("%s --sort nope: status %d %s", leaf.Path(), status, errs)
		}
		out, errs, status := client(t, full, path...)
		if status != 0 {
			t.Errorf("%s: status %d %s", leaf.Path(), status, errs)
		}
		ten, two := strings.Index(out, "obj10"), strings.Index(out, "obj2")
		if ten >= 0 && two >= 0 && ten < two {
			t.Errorf("%s is not sorted:\n%s", leaf.Path(), out)
		}
		for _, flag := range leaf.Flags {
			if flag.Name == "long" {
				if out, errs, status := client(t, full, append(path, "--long")...); status != 0 {
					t.Errorf("%s --long: status %d %s%s", leaf.Path(), status, out, errs)
				}
			}
		}
	}
	if seen < 14 {
		t.Errorf("only %d commands list objects", seen)
	}
}

// newNames are arguments that are not names of objects: new names, files, amounts and words.
var newNames = []string{"name", "source", "query", "address", "account", "resource=limit", "shell", "dir", "file",
	"rule", "project", "token"}

// argumentsOfCommands are the flags and arguments that commands need beside a mistyped name.
var argumentsOfCommands = map[string]string{
	"flavor set": "--description x", "network set": "--name x", "subnet set": "--name x", "port set": "--name x",
	"qos policy set": "--name x", "security-group set": "--name x", "aggregate set": "--name x",
	"aggregate add": "obj2", "aggregate remove": "obj2", "server resize": "--flavor obj2",
	"server add port": "obj2", "server add network": "obj2", "server remove port": "obj2",
	"server remove network": "obj2", "qos rule add": "--type bandwidth-limit --rate 1", "qos rule remove": "r",
	"device show": "0000:00:00.0", "device disable": "0000:00:00.0 --reason x", "device enable": "0000:00:00.0",
	"device clean": "0000:00:00.0", "image set": "--name x", "image member add": "p", "image save": "/nonexistent/file",
	"port explain": "--from 10.0.0.1", "image member remove": "p",
}

// Every command whose first argument is an object takes its name, and suggests similar names for a mistyped one.
func TestEveryMistypedNameGetsASuggestion(t *testing.T) {
	full, seen := anyService(t, false), 0
	answeredByService := []string{"host down", "host up", "host disable", "host enable", "host forget", "host bind",
		"host unbind", "host drain", "host heal"} // by compute, which suggests hosts
	for _, leaf := range leaves(t) {
		path := leaf.Path()
		if len(leaf.Positional) == 0 || slices.Contains(newNames, leaf.Positional[0].Name) ||
			slices.Contains(answeredByService, path) {
			continue
		}
		seen++
		args := append(strings.Fields(path), "obbj2")
		args = append(args, strings.Fields(argumentsOfCommands[path])...)
		_, errs, status := client(t, full, args...)
		if status != 1 || !strings.Contains(errs, "did you mean obj2") {
			t.Errorf("%v: status %d %s", args, status, errs)
		}
	}
	if seen < 40 {
		t.Errorf("only %d commands take names", seen)
	}
	for _, line := range []string{"server create x --flavor obj3", "server create x --flavor obj2 --image obj3",
		"server create x --flavor obj2 --network obj3", "server create x --flavor obj2 --port obj3",
		"launch x --image obj3",
		"launch x --image obj2 --flavor obj3", "launch x --image obj2 --flavor obj2 --network obj3",
		"launch x --image obj2 --flavor obj2 --network none --key obj3",
		"server list --host obj3", "port list --host obj3", "device list --host obj3", "server rebuild obj2 --image obj3",
		"subnet create x --subnet-range 10.0.0.0/24 --network obj3", "port create x --network obj3",
		"port create x --network obj2 --security-group obj3", "port create x --network obj2 --qos-policy obj3",
		"network create x --qos-policy obj3", "security-group rule add obj2 --remote-group obj3"} {
		_, errs, status := client(t, full, strings.Fields(line)...)
		if status != 1 || !strings.Contains(errs, "did you mean obj2 or obj10?") && !strings.Contains(errs,
			"did you mean obj2?") {
			t.Errorf("%s: status %d %s", line, status, errs)
		}
	}
}

// Every command is in a group of the help of the program, and that help is short and ends with the global flags.
func TestHelpIsInGroups(t *testing.T) {
	g := grammar{Commands: cli.NewCommands()}
	parser, err := kong.New(&g, kong.Vars{"version": "test"})
	must(t, err)
	for _, node := range parser.Model.Children {
		if node.Group == nil {
			t.Errorf("berth %s is in no group: give it the tag group", node.Name)
		}
	}
	var out, errs bytes.Buffer
	if status := run([]string{"--help"}, &out, &errs); status != 0 {
		t.Fatal(errs.String())
	}
	text := out.String()
	if commands, flags := strings.Index(text, "Networks:"), strings.Index(text, "Global flags:"); commands < 0 ||
		flags < commands {
		t.Errorf("the global flags are not behind the commands:\n%s", text)
	}
	out.Reset()
	if status := run([]string{"server", "list", "--help"}, &out, &errs); status != 0 || strings.Contains(out.String(),
		"--placement-url=") || !strings.Contains(out.String(), "`berth --help` shows the global flags") {
		t.Errorf("status %d %s", status, out.String())
	}
}

// A command with verbs for people prints its help without one, also if a service is its default.
func TestHelpWithoutVerb(t *testing.T) {
	for _, name := range []string{"agent", "image", "network"} {
		var out, errs bytes.Buffer
		if status := run([]string{name}, &out, &errs); status != 0 || !strings.Contains(out.String(), name+" run") {
			t.Errorf("%s: status %d %s%s", name, status, out.String(), errs.String())
		}
	}
	for line, command := range map[string]string{"network run": "network run", "network --data-dir network": "network run",
		"network list": "network list", "image save network f": "image save <name> <file>"} {
		if lacksVerb(command, strings.Fields(line)) {
			t.Errorf("%s lacks a verb", line)
		}
	}
}

// A negative number is a value, an address needs no scheme, and a cloud without the address of a service is named.
func TestNumbersAndAddresses(t *testing.T) {
	var out, errs bytes.Buffer
	if status := run([]string{"server", "create", "x", "--flavor", "f", "--count", "-1"}, &out, &errs); status != 2 ||
		!strings.Contains(errs.String(), "--count -1 is not valid: it must be 1 or more") {
		t.Errorf("status %d %s", status, errs.String())
	}
	for line, want := range map[string]string{
		"flavor create x --ram abc": `--ram: write a whole number instead of "abc"`,
		"server create x --flavor":  "--flavor: the value is missing",
		"audit --between-looks abc": `--between-looks: write a duration such as 30s or 10m instead of "abc"`,
		"server migrate":            "an argument is missing: <server>",
		"server list --url ftp://x": `the URL "ftp://x" is not valid: write http://HOST:PORT or https://HOST:PORT`,
	} {
		errs.Reset()
		if status := run(strings.Fields(line), &out, &errs); status != 2 || !strings.Contains(errs.String(), want) {
			t.Errorf("%s: status %d %s", line, status, errs.String())
		}
	}
	url := strings.TrimPrefix(anyService(t, true), "http://")
	if out, errs, status := client(t, url, "network", "list", "-o", "json"); status != 0 || out != "[]\n" {
		t.Errorf("status %d %s%s", status, out, errs)
	}
	errs.Reset()
	if status := run([]string{"server", "list", "--url", "127.0.0.1:1"}, &out, &errs); status != 1 ||
		!strings.Contains(errs.String(), "correct the URL with --url (or BERTH_URL)") {
		t.Errorf("status %d %s", status, errs.String())
	}
	file := filepath.Join(t.TempDir(), "clouds.yaml")
	must(t, os.WriteFile(file, []byte("clouds: {there: {auth_type: http_basic, compute_endpoint_override: 'http://x', "+
		"auth: {username: u, password: p}}}"), 0o600))
	t.Setenv("OS_CLIENT_CONFIG_FILE", file)
	errs.Reset()
	if status := run([]string{"image", "list", "--os-cloud", "there"}, &out, &errs); status != 1 ||
		!strings.Contains(errs.String(), "has no address of the image service; set image_endpoint_override there") {
		t.Errorf("status %d %s", status, errs.String())
	}
	errs.Reset()
	if status := run([]string{"image", "list", "--os-cloud", "their"}, &out, &errs); status != 1 ||
		!strings.Contains(errs.String(), "did you mean there?") {
		t.Errorf("status %d %s", status, errs.String())
	}
}
