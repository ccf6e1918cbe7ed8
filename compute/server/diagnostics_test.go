package server

import (
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/openberth/berth/api/host"
	"github.com/openberth/berth/compute/lifecycle"
)

// answering starts an agent of a host that answers each request for diagnostics or a crash dump.
func (h *fixture) answering(name string, out host.ConsoleOutput) {
	h.Helper()
	received, _ := watchHost(h.Context(), h.hosts, name, 0)
	nextLine(h.T, received)
	go func() {
		for line := range received {
			for _, r := range line.Consoles {
				if r.Diagnostics || r.CrashDump {
					_ = h.hosts.PutConsole(h.Context(), name, r.ID, out) // a repeated request is not open any more
				}
			}
		}
	}()
}

// TestDiagnostics tests both forms of the diagnostics of a server, and their refusals.
func TestDiagnostics(t *testing.T) {
	h := start(t)
	id := h.running("web")
	h.answering("cmp1", host.ConsoleOutput{Diagnostics: &host.Diagnostics{Driver: "libvirt", Hypervisor: "kvm",
		State: "running", ConfigDrive: true, MemoryKB: 524288, UsedKB: 2048,
		CPUs:  []host.CPUStats{{ID: 0, Time: 17}},
		Disks: []host.DiskStats{{Name: "vda", ReadBytes: 1, ReadRequests: 2, WriteBytes: 3, WriteRequests: 4, Errors: -1}},
		NICs:  []host.NICStats{{Name: "tap1", MAC: "fa:16:3e:00:00:01", RXOctets: 5, TXDropped: 6}}}})
	path := "/v2.1/servers/" + id + "/diagnostics"
	old := h.at("2.47", "GET", path, "")
	want := []string{"cpu0_time", "memory", "tap1_rx", "tap1_rx_drop", "tap1_rx_errors", "tap1_rx_packets", "tap1_tx",
		"tap1_tx_drop", "tap1_tx_errors", "tap1_tx_packets", "vda_errors", "vda_read", "vda_read_req", "vda_write",
		"vda_write_req"}
	if got := slices.Sorted(maps.Keys(old.body)); !slices.Equal(got, want) || old.dig("memory") != 524288.0 ||
		old.dig("tap1_rx") != 5.0 || old.dig("vda_write_req") != 4.0 {
		t.Errorf("2.47: %d %s", old.status, old.text)
	}
	now := h.at("2.48", "GET", path, "")
	want = []string{"config_drive", "cpu_details", "disk_details", "driver", "hypervisor", "hypervisor_os",
		"memory_details", "nic_details", "num_cpus", "num_disks", "num_nics", "state", "uptime"}
	if got := slices.Sorted(maps.Keys(now.body)); !slices.Equal(got, want) || now.dig("memory_details/maximum") != 512.0 ||
		now.dig("nic_details/0/mac_address") != "fa:16:3e:00:00:01" || now.dig("cpu_details/0/time") != 17.0 ||
		now.dig("num_disks") != 1.0 || now.dig("config_drive") != true {
		t.Errorf("2.48: %d %s", now.status, now.text)
	}
	if r := h.ask("GET", path, ""); r.status != 403 {
		t.Errorf("a user sees diagnostics: %d", r.status)
	}
	building := h.server(h.client("ann:p1"), "building", "web")
	if r := h.at("2.48", "GET", "/v2.1/servers/"+building+"/diagnostics", ""); r.status != 409 {
		t.Errorf("without a host: %d %s", r.status, r.text)
	}
	h.apply(id, lifecycle.ActionRequested{ID: "x", Action: lifecycle.Stop})
	h.apply(id, lifecycle.GuestStopped{Host: "cmp1", Consumer: id})
	if r := h.at("2.48", "GET", path, ""); r.status != 409 || !strings.Contains(r.text, "power state") {
		t.Errorf("stopped: %d %s", r.status, r.text)
	}
}

// TestDiagnosticsOfOtherHypervisors tests a host whose hypervisor has no diagnostics, and a guest that has gone.
func TestDiagnosticsOfOtherHypervisors(t *testing.T) {
	for status, out := range map[int]host.ConsoleOutput{501: {Refused: "the reason", Unsupported: true},
		409: {Refused: "the reason"}} {
		h := start(t)
		id := h.running("web")
		h.answering("cmp1", out)
		if r := h.at("2.48", "GET", "/v2.1/servers/"+id+"/diagnostics", ""); r.status != status ||
			!strings.Contains(r.text, "the reason") {
			t.Errorf("%d %s, want %d", r.status, r.text, status)
		}
	}
}

// TestCrashDump triggers a crash dump. It is refused before 2.17, if the hypervisor cannot, and for a server without a
// running guest. The actions of the server have only what was done.
func TestCrashDump(t *testing.T) {
	const body = `{"trigger_crash_dump": null}`
	h := start(t)
	id := h.running("web")
	path := "/v2.1/servers/" + id + "/action"
	h.answering("cmp1", host.ConsoleOutput{})
	for _, c := range []struct {
		version, path, body string
		status              int
		text                string
	}{
		{"2.16", path, body, 400, "it needs microversion 2.17"},
		{"2.17", path, `{"trigger_crash_dump": {}}`, 400, "it must be null"},
		{"2.17", "/v2.1/servers/" + h.server(h.client("ann:p1"), "building", "web") + "/action", body, 409, "does not run"},
		{"2.17", path, body, 202, ""},
	} {
		if r := h.at(c.version, "POST", c.path, c.body); r.status != c.status || !strings.Contains(r.text, c.text) {
			t.Errorf("%s %s: %d %s", c.version, c.body, r.status, r.text)
		}
	}
	if r := h.at("2.51", "GET", "/v2.1/servers/"+id+"/os-instance-actions", ""); strings.Count(r.text,
		"trigger_crash_dump") != 1 {
		t.Errorf("the actions are %s", r.text)
	}
}

// TestCrashDumpOfOtherHypervisors tests a host whose hypervisor cannot interrupt guests.
func TestCrashDumpOfOtherHypervisors(t *testing.T) {
	h := start(t)
	id := h.running("web")
	h.answering("cmp1", host.ConsoleOutput{Refused: "it cannot interrupt guests", Unsupported: true})
	r := h.at("2.17", "POST", "/v2.1/servers/"+id+"/action", `{"trigger_crash_dump": null}`)
	if r.status != 400 || !strings.Contains(r.text, "it cannot interrupt guests") {
		t.Errorf("%d %s", r.status, r.text)
	}
}
