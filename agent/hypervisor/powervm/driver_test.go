package powervm_test

import (
	"context"
	"fmt"
	"net/http/httptest"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/openberth/berth/agent/device"
	"github.com/openberth/berth/agent/hypervisor"
	"github.com/openberth/berth/agent/hypervisor/hypervisortest"
	"github.com/openberth/berth/agent/hypervisor/powervm"
	"github.com/openberth/berth/agent/powervm/restclient"
	"github.com/openberth/berth/backoff"
	"github.com/openberth/berth/fault"
	"github.com/openberth/berth/internal/novalink"
	"github.com/openberth/berth/pci"
)

// firstSlot is the DRC index of the first slot of the test system; the others follow.
const firstSlot = 0x21010000

// testSystem is a fake NovaLink with a system of seven GPUs.
type testSystem struct {
	*novalink.Server
	system *novalink.System
	url    string
	token  string
}

func startNovaLink(t *testing.T) *testSystem {
	n := &testSystem{system: &novalink.System{UUID: "11111111-2222-3333-4444-555555555555", Name: "sys1", Owner: true},
		token: t.TempDir()}
	for i := range 7 {
		n.system.Slots = append(n.system.Slots, novalink.GPU(uint32(firstSlot+i+1), fmt.Sprintf("U1-P1-C%d", i+1)))
	}
	n.Server = novalink.New(novalink.Options{TokenDir: n.token}, n.system)
	server := httptest.NewServer(n)
	t.Cleanup(server.Close)
	n.url = server.URL
	return n
}

// driver returns the driver of a directory.
func (n *testSystem) driver(t *testing.T, dir string) *powervm.Hypervisor {
	t.Helper()
	return powervm.New(n.client(t), powervm.Options{Dir: dir, DiskGB: 100, Recheck: time.Nanosecond})
}

// records lists the records of guests in a directory.
func records(dir string) []string {
	list, _ := filepath.Glob(filepath.Join(dir, "*.json")) // the pattern is valid
	return list
}

func (n *testSystem) client(t *testing.T) *restclient.Client {
	t.Helper()
	client, err := restclient.New(restclient.Options{URL: n.url, Poll: time.Millisecond,
		Busy: backoff.Exponential{First: time.Millisecond, Max: time.Millisecond}})
	if err != nil {
		t.Fatal(err)
	}
	return client
}

// slotNames translates the devices of the suite, 0000:3b:00.1 to 0000:3b:00.7, to the slots of the test system.
type slotNames struct{ *powervm.Hypervisor }

func toSlots(g hypervisor.Guest, translate func(pci.Address) pci.Address) hypervisor.Guest {
	g.Devices = slices.Clone(g.Devices)
	for i := range g.Devices {
		g.Devices[i].ID = device.PCI(translate(g.Devices[i].ID.Address()))
	}
	return g
}

func (s slotNames) Build(ctx context.Context, g hypervisor.Guest) error {
	err := s.Hypervisor.Build(ctx,
		toSlots(g, func(a pci.Address) pci.Address { return pci.IOSlot(firstSlot + uint32(a.Func)) }))
	if err == nil {
		return nil
	}
	text := fault.TextOf(err)
	for f := range 8 {
		text = strings.ReplaceAll(text, fmt.Sprintf("%08X", firstSlot+f), fmt.Sprintf("0000:3b:00.%d", f))
	}
	return fault.New(fault.KindOf(err), "%s", text)
}

func (s slotNames) Guests(ctx context.Context) ([]hypervisor.Guest, error) {
	list, err := s.Hypervisor.Guests(ctx)
	for i := range list {
		list[i] = toSlots(list[i], func(a pci.Address) pci.Address {
			return pci.Address{Bus: 0x3b, Func: uint8(a.DRC - firstSlot)}
		})
	}
	return list, err
}

// The driver passes the tests of all drivers.
func TestDriverPassesTheSuite(t *testing.T) {
	fakes, dirs := map[*testing.T]*testSystem{}, map[*testing.T]string{}
	hypervisortest.RunWithoutMigration(t, func(t *testing.T) hypervisor.Hypervisor {
		if fakes[t] == nil {
			fakes[t], dirs[t] = startNovaLink(t), t.TempDir()
		}
		return slotNames{fakes[t].driver(t, dirs[t])}
	})
}

// guest returns a guest with slots.
func guest(digit string, slots ...uint32) hypervisor.Guest {
	g := hypervisortest.Guest(digit)
	for _, s := range slots {
		g.Devices = append(g.Devices, hypervisor.Device{ID: device.PCI(pci.IOSlot(s)), Request: "r", Provider: "p"})
	}
	return g
}

func owners(n *testSystem) (out map[uint32]string) {
	n.Change(func(_ *novalink.Options, systems []*novalink.System) { out = systems[0].Owners() })
	return out
}

// The partition is created with its slots in one request, and deleting it frees them.
func TestPartitionHasItsSlots_R49_R50(t *testing.T) {
	n := startNovaLink(t)
	n.system.Slots[1].BusGrouping = true // the fake refuses a slot with another flag than its own
	h := n.driver(t, t.TempDir())
	if err := h.Build(t.Context(), guest("a", firstSlot+1, firstSlot+2)); err != nil {
		t.Fatal(err)
	}
	if got := owners(n); len(got) != 2 || !strings.HasPrefix(got[firstSlot+1], "guest_a-") {
		t.Errorf("owners %v", got)
	}
	if err := h.Destroy(t.Context(), hypervisortest.ID("a")); err != nil {
		t.Fatal(err)
	}
	if got := owners(n); len(got) != 0 {
		t.Errorf("owners after the deletion %v", got)
	}
}

// A guest whose image chooses hardware of QEMU is refused before anything is created.
func TestHardwareOfQEMUIsAConflict(t *testing.T) {
	n := startNovaLink(t)
	g := guest("a", firstSlot+1)
	g.Hardware.GuestAgent = true
	if err := n.driver(t, t.TempDir()).Build(t.Context(), g); !fault.Is(err, fault.Conflict) ||
		!strings.Contains(err.Error(), "guest agent") {
		t.Errorf("%v", err)
	}
	if got := owners(n); len(got) != 0 {
		t.Errorf("owners %v", got)
	}
}

// requestedText returns a text in the objects of all partitions.
func requestedText(n *testSystem, path ...string) (out string) {
	n.Change(func(_ *novalink.Options, systems []*novalink.System) {
		out = strings.Join(systems[0].PartitionText(path...), " ")
	})
	return out
}

// A partition with slots cannot restart on another host, so it does not claim to be capable of that.
func TestRemoteRestartNeedsNoSlots_C25(t *testing.T) {
	n := startNovaLink(t)
	h := n.driver(t, t.TempDir())
	for _, g := range []hypervisor.Guest{guest("a", firstSlot+1), guest("b")} {
		if err := h.Build(t.Context(), g); err != nil {
			t.Fatal(err)
		}
	}
	if got := requestedText(n, "SimplifiedRemoteRestartCapable"); got != "false true" {
		t.Errorf("SimplifiedRemoteRestartCapable is %s", got)
	}
}

// Slots are desired, and required with the option, also after a rebuild.
func TestSlotsAreRequiredByOption_C26(t *testing.T) {
	for _, required := range []bool{false, true} {
		n, dir := startNovaLink(t), t.TempDir()
		h := powervm.New(n.client(t), powervm.Options{Dir: dir, SlotsRequired: required})
		g := guest("a", firstSlot+1)
		for g.Build = range 2 {
			if err := h.Build(t.Context(), g); err != nil {
				t.Fatal(err)
			}
			got := requestedText(n, "PartitionIOConfiguration", "ProfileIOSlots", "ProfileIOSlot", "IsRequired")
			if got != fmt.Sprint(required) {
				t.Errorf("build %d, option %v: IsRequired is %s", g.Build, required, got)
			}
		}
	}
}

// A slot that another partition has, that is empty or that does not exist is a conflict before anything is created.
func TestUnusableSlotIsAConflict_R49_C28(t *testing.T) {
	for name, change := range map[string]func(s *novalink.System){
		"another owner": func(s *novalink.System) { s.Slots[0].ForeignID, s.Slots[0].ForeignName = "9", "vios1" },
		"empty":         func(s *novalink.System) { s.Slots[0] = novalink.Empty(firstSlot+1, "U1-P1-C1") },
		"pulled":        func(s *novalink.System) { s.Slots = s.Slots[1:] },
		"owner in the profile of a VIOS": func(s *novalink.System) {
			s.Owner, s.Slots[0].ForeignID, s.Slots[0].ForeignName = false, "9", "vios1"
		},
		"SR-IOV": func(s *novalink.System) { s.SRIOV = []string{fmt.Sprint(firstSlot + 1)} },
	} {
		t.Run(name, func(t *testing.T) {
			n := startNovaLink(t)
			dir := t.TempDir()
			h := n.driver(t, dir)
			n.Change(func(_ *novalink.Options, systems []*novalink.System) {
				change(systems[0])
				systems[0].Touch()
			})
			n.Requests()
			err := h.Build(t.Context(), guest("a", firstSlot+1))
			if !fault.Is(err, fault.Conflict) || !strings.Contains(err.Error(), "21010001") {
				t.Errorf("%v", err)
			}
			for _, r := range n.Requests() {
				if strings.HasPrefix(r, "PUT /uom") || strings.HasPrefix(r, "POST") {
					t.Errorf("sent %s", r)
				}
			}
			if left, _ := filepath.Glob(filepath.Join(dir, "*")); len(left) != 0 {
				t.Errorf("left %v", left)
			}
		})
	}
}

// A build is interrupted before the partition is created, and the slot gets another owner: the next attempt is a
// conflict, and the removal of the guest leaves nothing.
func TestSlotIsTakenDuringAnInterruption_R49_C28(t *testing.T) {
	n, dir := startNovaLink(t), t.TempDir()
	n.Inject(novalink.Fault{Method: "PUT", Path: "/LogicalPartition"})
	if err := n.driver(t, dir).Build(t.Context(), guest("a", firstSlot+1)); !fault.Is(err, fault.Unavailable) {
		t.Fatal(err)
	}
	n.Change(func(_ *novalink.Options, systems []*novalink.System) {
		systems[0].Slots[0].ForeignID = "9"
		systems[0].Touch()
	})
	h := n.driver(t, dir)
	if err := h.Build(t.Context(), guest("a", firstSlot+1)); !fault.Is(err, fault.Conflict) {
		t.Errorf("%v", err)
	}
	if err := h.Destroy(t.Context(), hypervisortest.ID("a")); err != nil {
		t.Fatal(err)
	}
	if left := records(dir); len(left) != 0 || len(owners(n)) != 0 {
		t.Errorf("left %v, owners %v", left, owners(n))
	}
}

// A build whose answer is lost is continued: there is one partition, with the slots.
func TestBuildContinuesAfterLostAnswer(t *testing.T) {
	for _, f := range []novalink.Fault{
		{Method: "PUT", Path: "/LogicalPartition", After: true},
		{Method: "PUT", Path: "/do/PowerOn", After: true},
		{Method: "GET", Path: "/uom/jobs", Status: 503, Times: 4},
	} {
		n := startNovaLink(t)
		h := n.driver(t, t.TempDir())
		n.Inject(f)
		if err := h.Build(t.Context(), guest("a", firstSlot+1)); !fault.Is(err, fault.Unavailable) {
			t.Errorf("%+v: %v", f, err)
		}
		if err := h.Build(t.Context(), guest("a", firstSlot+1)); err != nil {
			t.Fatalf("%+v: %v", f, err)
		}
		if got := owners(n); len(got) != 1 {
			t.Errorf("%+v: owners %v", f, got)
		}
		list, err := h.Guests(t.Context())
		if err != nil || len(list) != 1 || list[0].Stopped {
			t.Errorf("%+v: %v %v", f, list, err)
		}
	}
}

// A partition that does not start leaves nothing: its slots are free for another guest.
func TestFailedStartLeavesNothing(t *testing.T) {
	n := startNovaLink(t)
	h := n.driver(t, t.TempDir())
	n.Change(func(o *novalink.Options, _ []*novalink.System) { o.JobEnd = "FAILED_BEFORE_COMPLETION" })
	err := h.Build(t.Context(), guest("a", firstSlot+1))
	if !fault.Is(err, fault.Internal) || !strings.Contains(err.Error(), "HSCL3656") {
		t.Errorf("%v", err)
	}
	n.Change(func(o *novalink.Options, _ []*novalink.System) { o.JobEnd = "" })
	if err := h.Build(t.Context(), guest("b", firstSlot+1)); err != nil {
		t.Fatal(err)
	}
}

// A live migration is refused, and names the slots.
func TestLiveMigrationNamesTheSlots_R51(t *testing.T) {
	n := startNovaLink(t)
	h := n.driver(t, t.TempDir())
	if err := h.Build(t.Context(), guest("a", firstSlot+1, firstSlot+2)); err != nil {
		t.Fatal(err)
	}
	n.Requests()
	err := h.Migrate(t.Context(), hypervisortest.ID("a"), hypervisor.Destination{Host: "other"})
	if !fault.Is(err, fault.Conflict) || !strings.Contains(err.Error(), "21010001, 21010002") {
		t.Errorf("%v", err)
	}
	if sent := n.Requests(); len(sent) != 0 {
		t.Errorf("sent %v", sent)
	}
}

// A partition that another client stopped is listed as stopped. So is one that another client deleted, after the server
// has twice not found it; it is created again when its server is started.
func TestGuestsHaveTheStateOfTheirPartitions(t *testing.T) {
	n := startNovaLink(t)
	h := n.driver(t, t.TempDir())
	if err := h.Build(t.Context(), guest("a", firstSlot+1)); err != nil {
		t.Fatal(err)
	}
	n.Change(func(_ *novalink.Options, systems []*novalink.System) { systems[0].StopPartitions() })
	list, err := h.Guests(t.Context())
	if err != nil || len(list) != 1 || !list[0].Stopped {
		t.Errorf("%v %v", list, err)
	}
	n.Change(func(_ *novalink.Options, systems []*novalink.System) { systems[0].DeletePartitions() })
	if list, err = h.Guests(t.Context()); !fault.Is(err, fault.Unavailable) {
		t.Errorf("the first time: %v %v", list, err)
	}
	list, err = h.Guests(t.Context())
	if err != nil || len(list) != 1 || !list[0].Stopped || len(list[0].Devices) != 1 ||
		!strings.Contains(list[0].Remark, "was deleted by another client") {
		t.Errorf("the second time: %+v %v", list, err)
	}
	if err := h.Build(t.Context(), guest("a", firstSlot+1)); err != nil {
		t.Fatal(err)
	}
	list, err = h.Guests(t.Context())
	if got := owners(n); err != nil || len(list) != 1 || list[0].Stopped || list[0].Remark != "" || len(got) != 1 {
		t.Errorf("after the start: %+v %v, owners %v", list, err, got)
	}
}

// While a guest of a server leaves, a new guest of the same server is another partition.
func TestTwoGuestsOfOneServer(t *testing.T) {
	n := startNovaLink(t)
	h := n.driver(t, t.TempDir())
	if err := h.Build(t.Context(), guest("a", firstSlot+1)); err != nil {
		t.Fatal(err)
	}
	if err := h.Rename(t.Context(), hypervisortest.ID("a"), hypervisortest.ID("b"), hypervisortest.ID("a")); err != nil {
		t.Fatal(err)
	}
	if err := h.Build(t.Context(), guest("a", firstSlot+2)); err != nil {
		t.Fatal(err)
	}
	if got := owners(n); len(got) != 2 || got[firstSlot+1] == got[firstSlot+2] {
		t.Errorf("owners %v", got)
	}
}

// A server that ignores the slots when it creates a partition gets them in a second request, before the partition runs.
// One that ignores them there too is a conflict, and nothing is left.
func TestServerThatIgnoresSlots_R49(t *testing.T) {
	n := startNovaLink(t)
	n.system.IgnoresSlots = true
	dir := t.TempDir()
	h := n.driver(t, dir)
	if err := h.Build(t.Context(), guest("a", firstSlot+1)); err != nil {
		t.Fatal(err)
	}
	if got := owners(n); len(got) != 1 {
		t.Errorf("owners %v", got)
	}
	if err := h.Destroy(t.Context(), hypervisortest.ID("a")); err != nil {
		t.Fatal(err)
	}
	n.Change(func(_ *novalink.Options, systems []*novalink.System) { systems[0].IgnoresUpdates = true })
	n.Requests()
	if err := h.Build(t.Context(), guest("a", firstSlot+1)); !fault.Is(err, fault.Conflict) ||
		!strings.Contains(err.Error(), "21010001") {
		t.Errorf("%v", err)
	}
	for _, r := range n.Requests() {
		if strings.Contains(r, "PowerOn") {
			t.Errorf("a partition without its slot was started: %s", r)
		}
	}
	list, err := h.Guests(t.Context())
	if left, _ := filepath.Glob(filepath.Join(dir, "*")); err != nil || len(list)+len(left) != 0 {
		t.Errorf("left %v %v %v", list, left, err)
	}
}

// Another client took the slots of a running partition. It is not changed while it runs, and has its slots again when
// it was stopped and started.
func TestSlotsOfARunningPartitionAreNotChanged_R53_C22(t *testing.T) {
	n := startNovaLink(t)
	h := n.driver(t, t.TempDir())
	g := guest("a", firstSlot+1, firstSlot+2)
	if err := h.Build(t.Context(), g); err != nil {
		t.Fatal(err)
	}
	n.Change(func(_ *novalink.Options, systems []*novalink.System) { systems[0].DetachSlots() })
	n.Requests()
	if err := h.Build(t.Context(), g); !fault.Is(err, fault.Conflict) || !strings.Contains(err.Error(), "21010002") {
		t.Errorf("%v", err)
	}
	for _, r := range n.Requests() {
		if !strings.HasPrefix(r, "GET ") {
			t.Errorf("sent %s", r)
		}
	}
	for _, stopped := range []bool{true, false} {
		g.Stopped = stopped
		if err := h.Build(t.Context(), g); err != nil {
			t.Fatal(err)
		}
		list, err := h.Guests(t.Context())
		if got := owners(n); len(got) != 2 || err != nil || len(list) != 1 || list[0].Stopped != stopped {
			t.Errorf("stopped %v: owners %v, %v %v", stopped, got, list, err)
		}
	}
}

// The driver is ended at each of its requests in turn, before the server performs it and after, and another one
// continues. There is always one partition with the slots, and after the deletion none.
func TestKilledAtEachRequest(t *testing.T) {
	for _, after := range []bool{false, true} {
		for skip := 0; ; skip++ {
			n, dir := startNovaLink(t), t.TempDir()
			n.Inject(novalink.Fault{Skip: skip, After: after})
			g := guest("a", firstSlot+1, firstSlot+2)
			untilDone(t, func() error { return n.driver(t, dir).Build(t.Context(), g) })
			if got := owners(n); len(got) != 2 || got[firstSlot+1] != got[firstSlot+2] {
				t.Fatalf("request %d: owners %v", skip, got)
			}
			var list []hypervisor.Guest
			untilDone(t, func() (err error) { list, err = n.driver(t, dir).Guests(t.Context()); return err })
			if len(list) != 1 || list[0].Stopped || len(list[0].Devices) != 2 {
				t.Fatalf("request %d: %+v", skip, list)
			}
			h := n.driver(t, dir)
			untilDone(t, func() error { return h.Destroy(t.Context(), g.ID) })
			if left := records(dir); len(owners(n)) != 0 || len(left) != 0 {
				t.Fatalf("request %d: owners %v, files %v", skip, owners(n), left)
			}
			if sent := len(n.Requests()); skip > sent {
				if skip < 10 {
					t.Fatalf("the scenario has only %d requests", sent)
				}
				break
			}
		}
	}
}

// untilDone repeats a call of the driver, as the agent does.
func untilDone(t *testing.T, call func() error) {
	t.Helper()
	var err error
	for range 5 {
		if err = call(); err == nil {
			return
		}
	}
	t.Fatal(err)
}
