//go:build lab

package lab

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// device is what the stories need of a device, as the host API tells it.
type device struct {
	Address string `json:"address"`
	Type    string `json:"dev_type"`
	Node    int    `json:"numa_node"`
	Class   string `json:"resource_class"`
	State   string `json:"state"`
	Holder  string `json:"holder"`
}

// told is what a host's agent told compute.
type told struct {
	Devices []device `json:"devices"`
	Cells   []struct {
		ID        int   `json:"id"`
		Socket    int   `json:"socket"`
		CPUs      []int `json:"cpus"`
		Dedicated []int `json:"dedicated"`
		Pinned    []int `json:"pinned"`
	} `json:"cells"`
	Conditions []string `json:"conditions"`
}

// shown is the server that a story shows.
type shown struct {
	ID     string `json:"id"`
	Name   string `json:"name"`
	Status string `json:"status"`
	Fault  struct {
		Message string `json:"message"`
	} `json:"fault"`
}

// stories are what testdata/stories/run has shown, by "story what".
type stories map[string]string

func tell(output string) stories {
	s := stories{}
	for _, part := range regexp.MustCompile(`(?m)^== `).Split(output, -1)[1:] {
		head, body, _ := strings.Cut(part, "\n")
		s[head] = body
	}
	return s
}

// read reads JSON that a story has shown.
func (s stories) read(t *testing.T, head string, into any) {
	t.Helper()
	if err := json.Unmarshal([]byte(s[head]), into); err != nil {
		t.Fatalf("story %q: %v in\n%s", head, err, s[head])
	}
}

func (s stories) devices(t *testing.T, story string) []device {
	t.Helper()
	var out struct {
		Devices []device `json:"devices"`
	}
	s.read(t, story+" devices", &out)
	return out.Devices
}

func (s stories) host(t *testing.T, story string) told {
	t.Helper()
	var out struct {
		Hosts []told `json:"hosts"`
	}
	if s.read(t, story+" hosts", &out); len(out.Hosts) != 1 {
		t.Fatalf("story %s: %d hosts", story, len(out.Hosts))
	}
	return out.Hosts[0]
}

func (s stories) server(t *testing.T, head string) (out shown) {
	t.Helper()
	s.read(t, head, &out)
	return out
}

// tree is the device providers of a story, as "11:00.0 CUSTOM_VF0": "1/4".
func (s stories) tree(story string) map[string]string {
	out := map[string]string{}
	for _, m := range regexp.MustCompile(`lab_0000:(\S+)\s+(CUSTOM_\w+) (\d+/\d+)`).FindAllStringSubmatch(s[story+" tree"],
		-1) {
		out[m[1]+" "+m[2]] = m[3]
	}
	return out
}

// has wants Placement to count what is said of both PFs' VFs, and the other two devices once and free.
func (s stories) has(t *testing.T, story, vf0, vf1 string) {
	t.Helper()
	want := map[string]string{"00:03.0 CUSTOM_EDU": "0/1", "22:00.0 CUSTOM_NIC": "0/1"}
	if vf0 != "" {
		want["11:00.0 CUSTOM_VF0"] = vf0
	}
	if vf1 != "" {
		want["21:00.0 CUSTOM_VF1"] = vf1
	}
	if got := s.tree(story); !maps.Equal(got, want) {
		t.Errorf("story %s: Placement has %v, want %v", story, got, want)
	}
}

// holders are who holds which device of a class in a story; devices that are free have no holder.
func holders(list []device, class string) map[string]string {
	out := map[string]string{}
	for _, d := range list {
		if d.Class == class {
			out[d.Address] = d.Holder
		}
	}
	return out
}

// program builds berth into a payload.
func program(t *testing.T, dir string) {
	t.Helper()
	build := exec.CommandContext(t.Context(), "go", "build", "-o", filepath.Join(dir, "berth"), "./cmd/berth")
	build.Dir = filepath.Join("..", "..")
	build.Env = append(os.Environ(), "CGO_ENABLED=0", "GOOS=linux", "GOARCH=amd64")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("go build ./cmd/berth: %v\n%s", err, out)
	}
}

// The life of devices on a real kernel, in one boot: testdata/stories/run lives it, here it is judged.
func TestStories(t *testing.T) {
	script, err := os.ReadFile("testdata/stories/run")
	if err != nil {
		t.Fatal(err)
	}
	dir := payload(t, string(script))
	program(t, dir)
	t.Setenv("VFS", "2")
	if os.Getenv("LAB_TIMEOUT") == "" {
		t.Setenv("LAB_TIMEOUT", "900") // an emulated CPU takes them slowly, the more so beside others
	}
	s := tell(run(t, dir))
	for name, judge := range map[string]func(*testing.T, stories){
		"report": report, "hot-plug": hotPlug, "claim and release": claimRelease, "NUMA": numaPolicies,
		"unplugged while held": unplugged,
		"restart":              restarted, "plugged in again": replugged, "pulled out while held": pulled, "tour": tour,
	} {
		t.Run(name, func(t *testing.T) { judge(t, s) })
	}
}

// What the kernel has is reported: VFs under their PF, NUMA nodes and sockets, CPUs as the configuration shares them
// out.
func report(t *testing.T, s stories) {
	s.has(t, "report", "0/2", "0/2")
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

// VFs that are made and taken away through sysfs are told of at once: the agent looks by itself once an hour only.
func hotPlug(t *testing.T, s stories) {
	s.has(t, "change", "0/4", "")
	if got := len(holders(s.devices(t, "change"), "CUSTOM_VF0")); got != 4 {
		t.Errorf("compute knows %d VFs, want 4", got)
	}
	s.has(t, "again", "0/4", "0/4")
}

func claimRelease(t *testing.T, s stories) {
	server := s.server(t, "claim server")
	if server.Status != "ACTIVE" {
		t.Fatalf("%+v", server)
	}
	s.has(t, "claim", "1/4", "0/4")
	held := 0
	for _, by := range holders(s.devices(t, "claim"), "CUSTOM_VF0") {
		if by == server.ID {
			held++
		}
	}
	if held != 1 {
		t.Errorf("the server holds %d VFs, want 1", held)
	}
	s.has(t, "release", "0/4", "0/4")
	for at, by := range holders(s.devices(t, "release"), "CUSTOM_VF0") {
		if by != "" {
			t.Errorf("%s is still held by %s", at, by)
		}
	}
}

// With node 1 full, a guest lies on node 0. May it have a device of node 1, which is of the same socket here, and one
// of no known node?
func numaPolicies(t *testing.T, s stories) {
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

// Devices that go while they are held stay their holders'; free ones leave. People are told.
func unplugged(t *testing.T, s stories) {
	before := holders(s.devices(t, "held"), "CUSTOM_VF0")
	maps.DeleteFunc(before, func(_, by string) bool { return by == "" })
	if len(before) != 2 {
		t.Fatalf("two servers hold %v", before)
	}
	if after := holders(s.devices(t, "unplug"), "CUSTOM_VF0"); !maps.Equal(after, before) {
		t.Errorf("held before %v, after %v", before, after)
	}
	s.has(t, "unplug", "2/2", "0/4")
	said := strings.Join(s.host(t, "unplug").Conditions, "\n")
	for at, by := range before {
		if !strings.Contains(said, at+": is held by server "+by) {
			t.Errorf("nobody is told that %s has gone from under %s: %s", at, by, said)
		}
	}
}

// An agent that was killed knows again who holds what, also of devices that have gone; freed, those leave.
func restarted(t *testing.T, s stories) {
	before, after := holders(s.devices(t, "unplug"), "CUSTOM_VF0"), holders(s.devices(t, "restart"), "CUSTOM_VF0")
	if !maps.Equal(after, before) {
		t.Errorf("held before %v, after %v", before, after)
	}
	s.has(t, "restart", "2/2", "0/4")
	var list []shown
	s.read(t, "restart servers", &list)
	for _, server := range list {
		if server.Status != "ACTIVE" {
			t.Errorf("%s is %s", server.Name, server.Status)
		}
	}
	s.has(t, "freed", "1/1", "0/4")
	if left := holders(s.devices(t, "freed"), "CUSTOM_VF0"); len(left) != 1 {
		t.Errorf("one is held, and known are %v", left)
	}
}

// A PF that was pulled and put in again: what is held is the same device, the others are free; a restart changes
// nothing of it.
func replugged(t *testing.T, s stories) {
	held := holders(s.devices(t, "freed"), "CUSTOM_VF0")
	for _, story := range []string{"replug", "alive"} {
		now := holders(s.devices(t, story), "CUSTOM_VF0")
		if len(now) != 4 {
			t.Errorf("%s: four VFs came back, known are %v", story, now)
		}
		maps.DeleteFunc(now, func(_, by string) bool { return by == "" })
		if !maps.Equal(now, held) {
			t.Errorf("%s: held before %v, after %v", story, held, now)
		}
	}
	s.has(t, "replug", "1/4", "0/4")
	if said := s.host(t, "replug").Conditions; len(said) > 0 {
		t.Errorf("all is well, and still it is said: %q", said)
	}
	s.has(t, "end", "0/4", "0/4")
	if said := s.host(t, "end").Conditions; len(said) > 0 {
		t.Errorf("all is well, and still it is said: %q", said)
	}
}

// A device that is removed under its holder is held until the holder ends; put back, it is free.
func pulled(t *testing.T, s stories) {
	if held := holders(s.devices(t, "pulled"), "CUSTOM_NIC"); len(held) != 1 || held["0000:22:00.0"] == "" {
		t.Errorf("a claim was lost: %v", held)
	}
	if got := s.tree("pulled")["22:00.0 CUSTOM_NIC"]; got != "1/1" {
		t.Errorf("Placement has %q of it, want 1/1", got)
	}
	if got, there := s.tree("empty")["22:00.0 CUSTOM_NIC"]; there {
		t.Errorf("it has gone with its holder, and Placement has still %s", got)
	}
	if back := holders(s.devices(t, "back"), "CUSTOM_NIC"); len(back) != 1 || back["0000:22:00.0"] != "" {
		t.Errorf("put back, it is held by %v", back)
	}
}

// Berth's tour on a machine with SR-IOV: one provider per PF, with its VFs as inventory, and both NUMA nodes.
func tour(t *testing.T, s stories) {
	output := s["demo tour"]
	for _, name := range []string{"lab_0000:11:00.0", "lab_0000:21:00.0"} {
		if !shows(output, name, 4) {
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
			t.Errorf("NUMA node %s is not told of", node)
		}
	}
	if t.Failed() {
		t.Log("\n" + output)
	}
}
