package cli

import (
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/alecthomas/kong"

	"github.com/openberth/berth/api/compute"
	"github.com/openberth/berth/fault"
)

const (
	lanID  = "10000000-0000-4000-8000-000000000001"
	fastID = "20000000-0000-4000-8000-000000000001"
)

// portsCloud is a compute and a network service with fixed answers: networks lan and two called twin, and the port
// fast.
type portsCloud struct {
	*httptest.Server
	calls  []string // changes of servers: METHOD PATH BODY
	ports  []string // of server s
	change []string // the next values of port_change
	fault  string
	attach int // status of the next attachments; 0: 200
}

func newPortsCloud(t *testing.T) *portsCloud {
	c := &portsCloud{}
	c.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodGet {
			body, err := io.ReadAll(r.Body)
			if err != nil {
				t.Error(err)
			}
			c.calls = append(c.calls, r.Method+" "+strings.TrimPrefix(r.URL.Path, "/v2.1/servers")+" "+string(body))
		}
		status, answer := c.answer(r)
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(status)
		if err := json.NewEncoder(w).Encode(answer); err != nil {
			t.Error(err)
		}
	}))
	t.Cleanup(c.Close)
	return c
}

// answer returns the status and the body for a request.
func (c *portsCloud) answer(r *http.Request) (int, any) {
	type object = map[string]any
	name := r.URL.Query().Get("name")
	switch r.Method + " " + r.URL.Path {
	case "GET /v2.0/networks":
		list := map[string][]object{"lan": {{"id": lanID, "name": "lan"}}, "twin": {{"id": "1"}, {"id": "2"}}}[name]
		return 200, object{"networks": list}
	case "GET /v2.0/ports":
		return 200, object{"ports": map[string][]object{"fast": {{"id": fastID, "name": "fast",
			"project_id": "blue"}}}[name]}
	case "PUT /v2.0/ports/" + fastID, "POST /v2.0/ports":
		return 200, object{"port": object{"id": fastID}}
	case "POST /v2.0/security-group-rules":
		return 201, object{"security_group_rule": object{"id": "1"}}
	case "GET /v2.1/os-keypairs/me":
		return 200, object{"keypair": object{"name": "me"}}
	case "GET /v2.1/os-keypairs":
		return 200, object{"keypairs": []object{{"keypair": object{"name": "me"}}}}
	case "GET /v2.1/os-keypairs/my":
		return 404, object{"itemNotFound": object{"code": 404, "message": "no such key pair"}}
	case "GET /v2.0/security-groups":
		list := []object{{"id": lanID, "name": "web", "project_id": "red"},
			{"id": "1", "name": "default", "project_id": "red"}, {"id": "2", "name": "default", "project_id": "blue"}}
		return 200, object{"security_groups": slices.DeleteFunc(list, func(o object) bool {
			return name != "" && o["name"] != name
		})}
	case "GET /v2.1/flavors/f":
		return 200, object{"flavor": object{"id": "f"}}
	case "POST /v2.1/servers":
		return 202, object{"server": object{"id": "s"}}
	case "GET /v2.1/servers/s":
		return 200, object{"server": object{"id": "s", "name": "web", "status": "ACTIVE"}}
	case "GET /berth/v1/servers/s/why":
		why := object{"id": "s", "fault": c.fault}
		if len(c.change) > 0 {
			why["port_change"], c.change = c.change[0], c.change[1:]
		}
		return 200, object{"why": why}
	case "GET /v2.1/servers/s/os-interface":
		list := []compute.Interface{}
		for _, id := range c.ports {
			list = append(list, compute.Interface{Port: id, Network: lanID,
				FixedIPs: []compute.InterfaceAddress{{Address: "10.0.0.5"}}})
		}
		return 200, object{"interfaceAttachments": list}
	case "POST /v2.1/servers/s/os-interface":
		if c.attach != 0 {
			return c.attach, object{"computeFault": object{"code": c.attach, "message": "not attached yet"}}
		}
		c.ports = append(c.ports, fastID)
		return 200, object{"interfaceAttachment": compute.Interface{Port: fastID, Network: lanID}}
	}
	return 202, nil // DELETE
}

// run runs a command line and returns its standard output.
func (c *portsCloud) run(t *testing.T, line string) (string, error) {
	t.Helper()
	var out strings.Builder
	g := &Globals{}
	commands := NewCommands()
	parser, err := kong.New(&struct {
		*Globals
		*Commands
	}{g, &commands})
	if err != nil {
		t.Fatal(err)
	}
	parsed, err := parser.Parse(strings.Fields(line))
	if err != nil {
		return "", err
	}
	g.Stdout, g.Stderr, g.Token = &out, io.Discard, "admin"
	g.ComputeURL, g.NetworkURL = c.URL, c.URL
	err = parsed.Run(g)
	return out.String(), err
}

// Networks and ports of a new server are requested by id, in the order of the command line, also across both flags.
func TestServerCreateRequestsNetworksInOrder(t *testing.T) {
	for line, want := range map[string]string{
		"":               `"none"`,
		"--network auto": `"auto"`,
		"--network none": `"none"`,
		"--network lan":  `[{"uuid":"` + lanID + `"}]`,
		"--port fast --network=lan,fixed-ip=10.0.0.9 --port " + lanID + ",tag=x": `[{"port":"` + fastID + `"},{"uuid":"` +
			lanID + `","fixed_ip":"10.0.0.9"},{"port":"` + lanID + `","tag":"x"}]`,
		"--network lan --port fast --network lan,tag=a,fixed-ip=fd00::1": `[{"uuid":"` + lanID + `"},{"port":"` + fastID +
			`"},{"uuid":"` + lanID + `","fixed_ip":"fd00::1","tag":"a"}]`,
	} {
		c := newPortsCloud(t)
		if _, err := c.run(t, "server create web --flavor f "+line); err != nil {
			t.Errorf("%s: %v", line, err)
		}
		if len(c.calls) != 1 || !strings.Contains(c.calls[0], `"networks":`+want+`,`) {
			t.Errorf("%s: %q, want %s", line, c.calls, want)
		}
	}
}

// Wrong values are refused before anything is created.
func TestServerCreateRefusesNetworks(t *testing.T) {
	for line, want := range map[string]string{
		"--network auto --port fast":     "--network auto excludes other networks",
		"--network none --network lan":   "--network none excludes other networks",
		"--network auto,fixed-ip=1.2.3.": "--network auto excludes",
		"--network lan,ip=10.0.0.9":      `"ip=10.0.0.9" is not valid after the network: give fixed-ip=VALUE or tag=VALUE`,
		"--network lan,fixed-ip=":        `"fixed-ip=" is not valid`,
		"--network ,fixed-ip=10.0.0.9":   "has no name",
		"--port fast,fixed-ip=10.0.0.9":  `"fixed-ip=10.0.0.9" is not valid after the port: give tag=VALUE`,
		"--network nope":                 `no network has the id or the name "nope"`,
		"--network twin":                 `2 networks have the name "twin"; use one of the ids 1, 2`,
		"--port lan":                     `no port has the id or the name "lan"`,
	} {
		c := newPortsCloud(t)
		_, err := c.run(t, "server create web --flavor f "+line)
		if err == nil || !strings.Contains(err.Error(), want) || len(c.calls) > 0 {
			t.Errorf("%s: %v, want %s; %q", line, err, want, c.calls)
		}
	}
}

// A new server gets a key pair, user data and security groups, also the one of several with a name. What is mistyped is
// refused before anything is created, with a suggestion.
func TestServerCreateWithKeyAndGroups(t *testing.T) {
	dir := t.TempDir()
	data, large := filepath.Join(dir, "data"), filepath.Join(dir, "large")
	if err := errors.Join(os.WriteFile(data, []byte("#!/bin/sh\n"), 0o600),
		os.WriteFile(large, make([]byte, maxUserData+1), 0o600)); err != nil {
		t.Fatal(err)
	}
	c := newPortsCloud(t)
	_, err := c.run(t, "server create web --flavor f --network lan --key me --security-group web,default "+
		"--user-data "+data)
	if err != nil || len(c.calls) != 1 || !strings.Contains(c.calls[0], `"key_name":"me","user_data":"IyEvYmluL3NoCg==",`+
		`"security_groups":[{"name":"`+lanID+`"},{"name":"default"}]`) {
		t.Errorf("%v %q", err, c.calls)
	}
	for line, want := range map[string]string{
		"--key my":                            `no key pair has the id or the name "my"; did you mean me?`,
		"--network lan --security-group wed":  `no security group has the id or the name "wed"; did you mean web?`,
		"--security-group web":                "--security-group needs --network",
		"--network none --security-group web": "--security-group needs --network",
		"--port fast --security-group web":    "--security-group needs --network",
		"--user-data " + dir + "/nothing":     "the user data cannot be read",
		"--user-data " + large:                "has 49150 bytes: user data have at most 49149",
	} {
		c := newPortsCloud(t)
		if _, err := c.run(t, "server create web --flavor f "+line); err == nil || !strings.Contains(err.Error(), want) ||
			len(c.calls) > 0 {
			t.Errorf("%s: %v, want %s; %q", line, err, want, c.calls)
		}
	}
}

// An administrator sees a group default for each project. The one that a port gets is that of its project, and so is
// the other side of a rule. Where the project is not known, the error has that of each group.
func TestGroupsOfTheSameName(t *testing.T) {
	for line, want := range map[string]string{
		"port set fast --security-group default":                                  `{"port":{"security_groups":["2"]}}`,
		"port create p --network lan --project red --security-group default":      `"security_groups":["1"]`,
		"security-group rule add web --protocol tcp --remote-group default":       `"remote_group_id":"1"`,
		"port create p --network lan --security-group default":                    "",
		"port create p --network lan --security-group default --project green":    "",
		"security-group rule add default --protocol tcp --port 22 --remote-ip ::": "",
	} {
		c := newPortsCloud(t)
		_, err := c.run(t, line)
		if want != "" && (err != nil || len(c.calls) != 1 || !strings.Contains(c.calls[0], want)) {
			t.Errorf("%s: %v %q, want %s", line, err, c.calls, want)
		}
		if want == "" && (err == nil || len(c.calls) > 0 || !strings.Contains(err.Error(),
			`2 security groups have the name "default"; use one of the ids 1 (project red), 2 (project blue)`)) {
			t.Errorf("%s: %v %q", line, err, c.calls)
		}
	}
}

// Attaching sends one request. With --wait it follows a change that the service had not finished when it answered.
func TestServerAddPort(t *testing.T) {
	c := newPortsCloud(t)
	out, err := c.run(t, "server add port s fast --tag nic1 -o json")
	var got []portResult
	if err != nil || json.Unmarshal([]byte(out), &got) != nil || len(got) != 1 || got[0].Port != fastID ||
		got[0].Server != "web" || got[0].Result != "attached" {
		t.Errorf("%s %v", out, err)
	}
	want := []string{`POST /s/os-interface {"interfaceAttachment":{"port_id":"` + fastID + `","tag":"nic1"}}`}
	if !slices.Equal(c.calls, want) {
		t.Errorf("%q, want %q", c.calls, want)
	}

	c = newPortsCloud(t)
	if _, err = c.run(t, "server add network s lan --fixed-ip 10.0.0.5 --wait"); err != nil {
		t.Error(err)
	}
	if want := []string{`POST /s/os-interface {"interfaceAttachment":{"net_id":"` + lanID +
		`","fixed_ips":[{"ip_address":"10.0.0.5"}]}}`}; !slices.Equal(c.calls, want) {
		t.Errorf("%q, want %q", c.calls, want)
	}

	c = newPortsCloud(t)
	c.attach, c.fault = 503, "The port cannot be attached: full."
	if _, err = c.run(t, "server add port s fast"); !fault.Is(err, fault.Unavailable) {
		t.Errorf("without --wait: %v", err)
	}
	c.change = []string{"attaching", "attaching"}
	if _, err = c.run(t, "server add port s fast --wait"); err == nil || len(c.change) > 0 ||
		err.Error() != "the port is not attached: The port cannot be attached: full." {
		t.Errorf("%v, %d more states", err, len(c.change))
	}
}

// All ports of a network are detached, one after the other.
func TestServerRemovePorts(t *testing.T) {
	c := newPortsCloud(t)
	c.ports = []string{"p1", "p2"}
	if out, err := c.run(t, "server remove network s lan"); err != nil || strings.Count(out, "requested") != 2 {
		t.Errorf("%s %v", out, err)
	}
	if want := []string{"DELETE /s/os-interface/p1 ", "DELETE /s/os-interface/p2 "}; !slices.Equal(c.calls, want) {
		t.Errorf("%q, want %q", c.calls, want)
	}
	_, err := c.run(t, "server remove port s fast")
	if !fault.Is(err, fault.NotFound) || err.Error() != "server s has no port fast" || len(c.calls) != 2 {
		t.Errorf("%v %q", err, c.calls)
	}
	// The hypervisor refuses: the server keeps the port.
	c.ports, c.fault, c.change = []string{fastID}, "The port cannot be detached.", []string{"detaching"}
	out, err := c.run(t, "server remove port s fast --wait")
	if err == nil || !strings.Contains(err.Error(), "not detached: The port cannot be detached.") ||
		!strings.Contains(out, "requested") {
		t.Errorf("%s %v", out, err)
	}
}
