//go:build lab

package lab

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/openberth/berth/condition"
)

// device is a device in the format of the host API, as far as the scenarios need it.
type device struct {
	Address string `json:"address"`
	Type    string `json:"dev_type"`
	Node    int    `json:"numa_node"`
	Class   string `json:"resource_class"`
	State   string `json:"state"`
	Holder  string `json:"holder"`
}

// report is a host in the format of the host API: the report of its agent.
type report struct {
	Devices []device `json:"devices"`
	Cells   []struct {
		ID        int   `json:"id"`
		Socket    int   `json:"socket"`
		CPUs      []int `json:"cpus"`
		Dedicated []int `json:"dedicated"`
		Pinned    []int `json:"pinned"`
	} `json:"cells"`
	Conditions []condition.Condition `json:"conditions"`
}

// server is a server in the output of a scenario.
type server struct {
	ID     string `json:"id"`
	Name   string `json:"name"`
	Status string `json:"status"`
	Fault  struct {
		Message string `json:"message"`
	} `json:"fault"`
}

// scenarios is the output of testdata/berth-scenarios/run: key is "scenario what".
type scenarios map[string]string

// parseScenarios splits the output of the script.
func parseScenarios(output string) scenarios {
	s := scenarios{}
	for _, part := range regexp.MustCompile(`(?m)^== `).Split(output, -1)[1:] {
		head, body, _ := strings.Cut(part, "\n")
		s[head] = body
	}
	return s
}

// read parses JSON of a scenario.
func (s scenarios) read(t *testing.T, head string, into any) {
	t.Helper()
	if err := json.Unmarshal([]byte(s[head]), into); err != nil {
		t.Fatalf("scenario %q: %v in\n%s", head, err, s[head])
	}
}

// devices returns the devices of a scenario.
func (s scenarios) devices(t *testing.T, scenario string) []device {
	t.Helper()
	var out struct {
		Devices []device `json:"devices"`
	}
	s.read(t, scenario+" devices", &out)
	return out.Devices
}

// host returns the only host of a scenario.
func (s scenarios) host(t *testing.T, scenario string) report {
	t.Helper()
	var out struct {
		Hosts []report `json:"hosts"`
	}
	if s.read(t, scenario+" hosts", &out); len(out.Hosts) != 1 {
		t.Fatalf("scenario %s: %d hosts", scenario, len(out.Hosts))
	}
	return out.Hosts[0]
}

// server returns a server of a scenario.
func (s scenarios) server(t *testing.T, head string) (out server) {
	t.Helper()
	s.read(t, head, &out)
	return out
}

// tree returns the device providers of a scenario, as "11:00.0 CUSTOM_VF0": "1/4".
func (s scenarios) tree(scenario string) map[string]string {
	out := map[string]string{}
	for _, m := range regexp.MustCompile(`lab_0000:(\S+)\s+(CUSTOM_\w+) (\d+/\d+)`).FindAllStringSubmatch(
		s[scenario+" tree"],
		-1) {
		out[m[1]+" "+m[2]] = m[3]
	}
	return out
}

// checkTree checks that Placement has this usage of the VFs of both PFs ("" for none), and the other two devices
// once and free.
func (s scenarios) checkTree(t *testing.T, scenario, vf0, vf1 string) {
	t.Helper()
	want := map[string]string{"00:03.0 CUSTOM_EDU": "0/1", "22:00.0 CUSTOM_NIC": "0/1"}
	if vf0 != "" {
		want["11:00.0 CUSTOM_VF0"] = vf0
	}
	if vf1 != "" {
		want["21:00.0 CUSTOM_VF1"] = vf1
	}
	if got := s.tree(scenario); !maps.Equal(got, want) {
		t.Errorf("scenario %s: Placement has %v, want %v", scenario, got, want)
	}
}

// holders returns the holder of each device of a class; free devices have the holder "".
func holders(list []device, class string) map[string]string {
	out := map[string]string{}
	for _, d := range list {
		if d.Class == class {
			out[d.Address] = d.Holder
		}
	}
	return out
}

// TestScenarios runs testdata/berth-scenarios/run on a real kernel, in one boot, and checks its output.
func TestScenarios(t *testing.T) {
	t.Parallel()
	script, err := os.ReadFile("testdata/berth-scenarios/run")
	if err != nil {
		t.Fatal(err)
	}
	dir := payload(t, string(script))
	buildBerth(t, dir)
	s := parseScenarios(run(t, dir, "VFS=2", longLimit()))
	for name, check := range map[string]func(*testing.T, scenarios){
		"report": checkReport, "hot-plug": checkHotPlug, "claim and release": checkClaimAndRelease, "NUMA": checkNUMAPolicies,
		"unplugged while held": checkUnplugged,
		"restart":              checkRestart, "PF removed and added again": checkReplugged,
		"device removed while held": checkRemovedDevice, "a card as its PF or as its VFs": checkCard, "tour": checkTour,
	} {
		t.Run(name, func(t *testing.T) { check(t, s) })
	}
}

// checkReport checks the report of the kernel's devices: VFs below their PF, NUMA nodes and sockets, and CPUs as
// configured.
func checkReport(t *testing.T, s scenarios) {
	s.checkTree(t, "report", "0/2", "0/2")
	var got []string
	for _, d := range s.devices(t, "report") {
		got = append(got, fmt.Sprintf("%s %s node %d %s", d.Address, d.Type, d.Node, d.State))
	}
	want := []string{"0000:00:03.0 type-PCI node -1 available", "0000:11:00.1 type-VF node 0 available",
		"0000:11:00.2 type-VF node 0 available",
		"0000:21:00.1 type-VF node 1 available", "0000:21:00.2 type-VF node 1 available",
		"0000:22:00.0 type-PCI node 1 available"}
	if !slices.Equal(got, want) {
		t.Errorf("got %q\nwant %q", got, want)
	}
	h := s.host(t, "report")
	if len(h.Conditions) > 0 || len(h.Cells) != 2 {
		t.Fatalf("%+v", h)
	}
	for n, c := range h.Cells {
		if c.ID != n || c.Socket != 0 || !slices.Equal(c.CPUs, []int{2 * n}) || !slices.Equal(c.Dedicated, []int{2*n + 1}) ||
			len(c.Pinned) > 0 {
			t.Errorf("NUMA node %d: %+v", n, c)
		}
	}
}

// checkHotPlug checks that VFs which are created and removed through sysfs are reported at once, although the agent
// rescans only once an hour.
func checkHotPlug(t *testing.T, s scenarios) {
	s.checkTree(t, "change", "0/4", "")
	if got := len(holders(s.devices(t, "change"), "CUSTOM_VF0")); got != 4 {
		t.Errorf("compute has %d VFs, want 4", got)
	}
	s.checkTree(t, "again", "0/4", "0/4")
}

// checkClaimAndRelease checks the holder and the usage of a VF after a claim and after its release.
func checkClaimAndRelease(t *testing.T, s scenarios) {
	server := s.server(t, "claim server")
	if server.Status != "ACTIVE" {
		t.Fatalf("%+v", server)
	}
	s.checkTree(t, "claim", "1/4", "0/4")
	held := 0
	for _, by := range holders(s.devices(t, "claim"), "CUSTOM_VF0") {
		if by == server.ID {
			held++
		}
	}
	if held != 1 {
		t.Errorf("the server holds %d VFs, want 1", held)
	}
	s.checkTree(t, "release", "0/4", "0/4")
	for at, by := range holders(s.devices(t, "release"), "CUSTOM_VF0") {
		if by != "" {
			t.Errorf("%s is still held by %s", at, by)
		}
	}
}

// checkNUMAPolicies checks which NUMA policies allow a guest on node 0 a device of node 1, which has the same socket
// here, and a device without a node. Node 1 is full.
func checkNUMAPolicies(t *testing.T, s scenarios) {
	if filler := s.server(t, "numa filler"); filler.Status != "ACTIVE" {
		t.Fatalf("%+v", filler)
	}
	if cells := s.host(t, "numa").Cells; len(cells) != 2 || len(cells[0].Pinned) != 0 || !slices.Equal(cells[1].Pinned,
		[]int{3}) {
		t.Fatalf("numa_policy required did not lead to node 1: %+v", cells)
	}
	for name, why := range map[string]string{
		"nic-required": "a device is on node 1", "nic-legacy": "a device is on node 1", "nic-preferred": "", "nic-socket": "",
		"edu-required": "a device is on no known node", "edu-legacy": "", "edu-preferred": "",
		"edu-socket": "a device is on no known node",
	} {
		_, policy, _ := strings.Cut(name, "-")
		switch got := s.server(t, "numa "+name); {
		case why == "" && got.Status != "ACTIVE":
			t.Errorf("%s: refused: %s", name, got.Fault.Message)
		case why != "" && (got.Status != "ERROR" || !strings.Contains(got.Fault.Message, why) ||
			!strings.Contains(got.Fault.Message, "numa_policy "+policy)):
			t.Errorf("%s: %s %q, want a refusal with %q", name, got.Status, got.Fault.Message, why)
		}
	}
}

// checkUnplugged checks that held devices which disappear stay allocated, that free ones are removed, and that
// conditions report the held ones.
func checkUnplugged(t *testing.T, s scenarios) {
	before := holders(s.devices(t, "held"), "CUSTOM_VF0")
	maps.DeleteFunc(before, func(_, by string) bool { return by == "" })
	if len(before) != 2 {
		t.Fatalf("two servers hold %v", before)
	}
	if after := holders(s.devices(t, "unplug"), "CUSTOM_VF0"); !maps.Equal(after, before) {
		t.Errorf("held before %v, after %v", before, after)
	}
	s.checkTree(t, "unplug", "2/2", "0/4")
	conditions := strings.Join(condition.Texts(s.host(t, "unplug").Conditions), "\n")
	for at, by := range before {
		if !strings.Contains(conditions, at+": is held by server "+by) {
			t.Errorf("no condition reports that %s of %s has disappeared: %s", at, by, conditions)
		}
	}
}

// checkRestart checks that an agent which was killed restores the holders, also of devices that have disappeared;
// these are removed when they are released.
func checkRestart(t *testing.T, s scenarios) {
	before, after := holders(s.devices(t, "unplug"), "CUSTOM_VF0"), holders(s.devices(t, "restart"), "CUSTOM_VF0")
	if !maps.Equal(after, before) {
		t.Errorf("held before %v, after %v", before, after)
	}
	s.checkTree(t, "restart", "2/2", "0/4")
	var list []server
	s.read(t, "restart servers", &list)
	for _, server := range list {
		if server.Status != "ACTIVE" {
			t.Errorf("%s is %s", server.Name, server.Status)
		}
	}
	s.checkTree(t, "freed", "1/1", "0/4")
	if left := holders(s.devices(t, "freed"), "CUSTOM_VF0"); len(left) != 1 {
		t.Errorf("one device is held, compute has %v", left)
	}
}

// checkReplugged checks a PF that was removed and added again: held VFs are the same devices, the others are free,
// and a restart changes nothing.
func checkReplugged(t *testing.T, s scenarios) {
	held := holders(s.devices(t, "freed"), "CUSTOM_VF0")
	for _, scenario := range []string{"replug", "alive"} {
		now := holders(s.devices(t, scenario), "CUSTOM_VF0")
		if len(now) != 4 {
			t.Errorf("%s: four VFs exist, compute has %v", scenario, now)
		}
		maps.DeleteFunc(now, func(_, by string) bool { return by == "" })
		if !maps.Equal(now, held) {
			t.Errorf("%s: held before %v, after %v", scenario, held, now)
		}
	}
	s.checkTree(t, "replug", "1/4", "0/4")
	if conditions := s.host(t, "replug").Conditions; len(conditions) > 0 {
		t.Errorf("unexpected conditions: %q", conditions)
	}
	s.checkTree(t, "end", "0/4", "0/4")
	if conditions := s.host(t, "end").Conditions; len(conditions) > 0 {
		t.Errorf("unexpected conditions: %q", conditions)
	}
}

// checkRemovedDevice checks that a device which is removed while held stays allocated until its holder is deleted,
// and is free when it is added again.
func checkRemovedDevice(t *testing.T, s scenarios) {
	if held := holders(s.devices(t, "pulled"), "CUSTOM_NIC"); len(held) != 1 || held["0000:22:00.0"] == "" {
		t.Errorf("the holder is wrong: %v", held)
	}
	// It is disabled, because it has vanished: Placement has it as reserved until it is enabled.
	if got := s.tree("pulled")["22:00.0 CUSTOM_NIC"]; got != "1/0" {
		t.Errorf("while it is held Placement has %q, want 1/0", got)
	}
	if got, there := s.tree("empty")["22:00.0 CUSTOM_NIC"]; there {
		t.Errorf("the device and its holder are gone, but Placement has %s", got)
	}
	if back := holders(s.devices(t, "back"), "CUSTOM_NIC"); len(back) != 1 || back["0000:22:00.0"] != "" {
		t.Errorf("after it was added again: %v", back)
	}
}

// checkCard checks that a card is given as its PF, without VFs, over a crash of the agent, and that the VFs are there
// again afterwards.
func checkCard(t *testing.T, s scenarios) {
	for scenario, used := range map[string]string{"whole": "4/4", "killed": "4/4", "part": "1/4"} {
		if got := s.tree(scenario)["21:00.0 CUSTOM_CARD"]; got != used {
			t.Errorf("scenario %s: Placement has %q slices, want %s", scenario, got, used)
		}
	}
	for _, head := range []string{"whole server", "part server"} {
		if server := s.server(t, head); server.Status != "ACTIVE" {
			t.Errorf("%s: %+v", head, server)
		}
	}
	for head, want := range map[string]string{"whole vfs": "0", "restored vfs": "4"} {
		if got := strings.TrimSpace(s[head]); got != want {
			t.Errorf("%s: the PF has %s, want %s", head, got, want)
		}
	}
	if conditions := s.host(t, "part").Conditions; len(conditions) > 0 {
		t.Errorf("unexpected conditions: %q", conditions)
	}
}

// checkTour checks the tour on a machine with SR-IOV: one provider per PF, with its VFs as inventory, and both NUMA
// nodes.
func checkTour(t *testing.T, s scenarios) {
	output := s["demo tour"]
	for _, name := range []string{"lab_0000:11:00.0", "lab_0000:21:00.0"} {
		if !hasProvider(output, name, 4) {
			t.Errorf("no provider %s with a total of 4 of a CUSTOM_ resource class", name)
		}
	}
	for _, name := range []string{"lab_0000:11:00.1", "lab_0000:21:00.4"} {
		if regexp.MustCompile(regexp.QuoteMeta(name) + `\b`).MatchString(output) {
			t.Errorf("a VF has a provider of its own: %s", name)
		}
	}
	for _, node := range []string{"0", "1"} {
		if !regexp.MustCompile(`(?i)numa(?:[ _]node)?\W*` + node + `\b`).MatchString(output) {
			t.Errorf("NUMA node %s is not reported", node)
		}
	}
	if t.Failed() {
		t.Log("\n" + output)
	}
}
