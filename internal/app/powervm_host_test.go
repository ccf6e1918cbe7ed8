package app

import (
	"context"
	"fmt"
	"log/slog"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/openberth/berth/api/compute"
	"github.com/openberth/berth/fault"
	"github.com/openberth/berth/internal/novalink"
	"github.com/openberth/berth/internal/settings"
	"github.com/openberth/berth/internal/testenv"
	"github.com/openberth/berth/provider"
	"github.com/openberth/berth/resource"
)

// The slots of the test system: two GPUs, an adapter that the inventory file does not name, and an empty slot.
const gpuSlot1, gpuSlot2, otherSlot, emptySlot = 0x1C0FFEE1, 0x1C0FFEE2, 0x21010010, 0x21010020

// powerVM is a cloud with one host that has PowerVM.
type powerVM struct {
	*lab
	novalink *novalink.Server
	system   *novalink.System
	file     string // inventory file
	conf     string
}

func newPowerVM(t *testing.T) *powerVM {
	p := &powerVM{lab: newLab(t), system: &novalink.System{UUID: "11111111-2222-3333-4444-555555555555", Name: "sys1",
		Owner: true, Slots: []*novalink.Slot{novalink.GPU(gpuSlot1, "U1-P1-C1"),
			novalink.GPU(gpuSlot2, "U1-P1-C2"), novalink.GPU(otherSlot, "U1-P2-C1"),
			novalink.Empty(emptySlot, "U1-P2-C2")}}}
	p.novalink = novalink.New(novalink.Options{TokenDir: t.TempDir()}, p.system)
	server := httptest.NewServer(p.novalink)
	t.Cleanup(server.Close)
	p.file = filepath.Join(p.dir, "inventory.yaml")
	p.write("gpus:\n  identification: {vendor_id: 10DE, drc_name: U1-P1-*}\n  resource_class: CUSTOM_GPU\n  " +
		"traits: [CUSTOM_FAST]\n")
	p.conf = "[DEFAULT]\ncompute_driver = powervm.PowerVMDriver\nallow_resize_to_same_host = true\n[powervm]\nurl = " +
		server.URL + "\ninventory_files = " + p.file + "\n"
	return p
}

func (p *powerVM) write(text string) {
	p.t.Helper()
	if err := os.WriteFile(p.file, []byte(text), 0o600); err != nil {
		p.t.Fatal(err)
	}
}

// change changes the system.
func (p *powerVM) change(change func(s *novalink.System)) {
	p.novalink.Change(func(_ *novalink.Options, systems []*novalink.System) {
		change(systems[0])
		systems[0].Touch()
	})
}

// provider returns a provider of the host by its name. The tree is read again if a provider of it is deleted meanwhile.
func (p *powerVM) provider(name string) (found provider.Provider) {
	p.t.Helper()
	client := p.cloud.PlacementClient()
	p.until("the tree is read", func() bool {
		root, err := client.ProviderByName(p.t.Context(), "cmp1")
		if err != nil {
			p.t.Fatal(err)
		}
		tree, err := client.Tree(p.t.Context(), root.ID)
		if err != nil && !fault.Is(err, fault.NotFound) {
			p.t.Fatal(err)
		}
		found, _ = tree.ByName(name)
		return err == nil
	})
	return found
}

// owners returns the partition that has each slot.
func (p *powerVM) owners() (out map[uint32]string) {
	p.change(func(s *novalink.System) { out = s.Owners() })
	return out
}

func slotProvider(index uint32) string { return fmt.Sprintf("PowerVM IOSlot cmp1 %08X", index) }

// gpuSpecs requests n GPUs as plain groups, without an alias.
func gpuSpecs(n int) map[string]string {
	specs := map[string]string{}
	for i := range n {
		specs[fmt.Sprintf("resources%d:CUSTOM_GPU", i+1)] = "1"
		specs[fmt.Sprintf("trait%d:CUSTOM_POWERVM_IOSLOT_VENDOR_ID_10DE", i+1)] = "required"
	}
	if n > 1 {
		specs["group_policy"] = "isolate"
	}
	return specs
}

// Two servers get a GPU each by plain groups; a third is refused; their partitions have the slots that Placement
// allocated. Live migration is refused, and a deletion frees the slot.
func TestServersWithIOSlots(t *testing.T) {
	testenv.Long(t)
	t.Parallel()
	p := newPowerVM(t)
	p.check = time.Minute // because requests are counted
	p.up(p.conf)
	defer p.down()
	for _, index := range []uint32{gpuSlot1, gpuSlot2} {
		if got := p.provider(slotProvider(index)); got.Inventories["CUSTOM_GPU"] != resource.Whole(1) ||
			!got.HasTrait("CUSTOM_FAST") || got.HasTrait("COMPUTE_MANAGED_PCI_DEVICE") {
			t.Errorf("%+v", got)
		}
	}
	if p.provider(slotProvider(otherSlot)).ID != "" || p.provider(slotProvider(emptySlot)).ID != "" {
		t.Error("a slot that is not allowed has a provider")
	}
	a := p.boot("a", "ACTIVE", gpuSpecs(1))
	b := p.boot("b", "ACTIVE", gpuSpecs(1))
	if owners := p.owners(); len(owners) != 2 || owners[gpuSlot1] == owners[gpuSlot2] {
		t.Errorf("owners %v", owners)
	}
	p.oneGETACycle()
	c := p.boot("c", "ERROR", gpuSpecs(1))
	if c.Fault == nil || !strings.Contains(c.Fault.Message, "CUSTOM_GPU") {
		t.Errorf("%+v", c.Fault)
	}
	err := p.compute().Act(t.Context(), a.ID, "os-migrateLive", map[string]any{"host": nil, "block_migration": "auto"})
	if err == nil || !strings.Contains(err.Error(), "1C0FFEE") {
		t.Errorf("live migration: %v", err)
	}
	p.quiet()
	p.delete(a.ID)
	p.delete(b.ID)
	p.until("the slots are free", func() bool { return len(p.owners()) == 0 })
}

// oneGETACycle checks that the system is not read more often than the partitions, which each cycle reads for the guests
// and for the capacity, and that an unchanged system is not transferred, except once by the first check of the driver.
func (p *powerVM) oneGETACycle() {
	p.t.Helper()
	p.quiet()
	p.novalink.Requests()
	count := func(list []string, request string) (n int) {
		for _, one := range list {
			if strings.HasPrefix(one, request) {
				n++
			}
		}
		return n
	}
	var list []string
	p.until("three cycles", func() bool {
		list = append(list, p.novalink.Requests()...)
		return count(list, "GET /uom/ManagedSystem/") >= 12 // each reading has two: partitions and virtual I/O servers
	})
	systems, readings := count(list, "GET /uom/ManagedSystem 304"), count(list, "GET /uom/ManagedSystem/")/2
	if systems > readings+1 || count(list, "GET /uom/ManagedSystem 200") > 1 {
		p.t.Errorf("%d readings: %v", readings, list)
	}
}

// A resize from no GPU to one builds a partition with the slot, and a revert removes it.
func TestResizeAttachesIOSlots_R53(t *testing.T) {
	testenv.Long(t)
	t.Parallel()
	p := newPowerVM(t)
	p.up(p.conf)
	defer p.down()
	s := p.boot("web", "ACTIVE", nil)
	big, err := p.compute().CreateFlavor(t.Context(), compute.CreateFlavor{Name: "gpu", VCPUs: 1, RAM: 64, Disk: 1})
	if err == nil {
		err = p.compute().SetExtraSpecs(t.Context(), big.ID, gpuSpecs(2))
	}
	if err != nil {
		t.Fatal(err)
	}
	act := func(action, status string, slots int, args map[string]any) {
		t.Helper()
		if err := p.compute().Act(t.Context(), s.ID, action, args); err != nil {
			t.Fatalf("%s: %v", action, err)
		}
		p.until(action, func() bool {
			now, err := p.compute().Server(t.Context(), s.ID)
			return err == nil && now.Status == status && now.TaskState == nil && len(p.owners()) == slots
		})
	}
	act("resize", "VERIFY_RESIZE", 2, map[string]any{"flavorRef": big.ID})
	act("revertResize", "ACTIVE", 0, nil)
	act("resize", "VERIFY_RESIZE", 2, map[string]any{"flavorRef": big.ID})
	act("confirmResize", "ACTIVE", 2, nil)
	act("os-stop", "SHUTOFF", 2, nil)
	act("os-start", "ACTIVE", 2, nil)
	act("rebuild", "ACTIVE", 2, map[string]any{"imageRef": p.image()})
	if err := p.cloud.StopAgent(); err != nil {
		t.Fatal(err)
	}
	if err := p.cloud.StartAgent(t.Context()); err != nil {
		t.Fatal(err)
	}
	p.quiet()
	p.delete(s.ID)
}

// A foreign partition takes a slot: it is reserved. An edited file takes effect without a restart, and an error in it
// is a condition while the last valid file stays in force.
func TestForeignOwnersAndEditedFiles(t *testing.T) {
	testenv.Long(t)
	t.Parallel()
	p := newPowerVM(t)
	p.up(p.conf)
	defer p.down()
	a := p.boot("a", "ACTIVE", gpuSpecs(1))
	free, held := uint32(gpuSlot2), uint32(gpuSlot1)
	if p.owners()[gpuSlot2] != "" {
		free, held = gpuSlot1, gpuSlot2
	}
	reserved := func(index uint32) int {
		return p.provider(slotProvider(index)).Inventories["CUSTOM_GPU"].Reserved
	}
	p.change(func(s *novalink.System) {
		for _, slot := range s.Slots {
			if slot.Index == free {
				slot.ForeignID, slot.ForeignName = "9", "vios1"
			}
		}
	})
	p.until("the foreign slot is reserved", func() bool { return reserved(free) == 1 })
	if reserved(held) != 0 {
		t.Error("the slot of a server is reserved")
	}
	p.write("gpus: {identification: {vendor_id: 10DG}}\n")
	p.until("the error is a condition", func() bool { return strings.Contains(p.conditions(), "inventory.yaml:1:") })
	if p.provider(slotProvider(held)).ID == "" || p.provider(slotProvider(free)).ID == "" {
		t.Error("an invalid file deleted a provider")
	}
	p.write("none: {identification: {vendor_id: '0001'}}\n")
	p.until("the free provider is deleted, the other is reserved", func() bool {
		return p.provider(slotProvider(free)).ID == "" && reserved(held) == 1
	})
	if len(p.allocation(a.ID)) == 0 {
		t.Error("the allocation is gone")
	}
	p.delete(a.ID)
	p.until("the other provider is deleted", func() bool { return p.provider(slotProvider(held)).ID == "" })
}

// secondHost starts the agent of another host, cmp2, with a system that has the same DRC indices, and returns the
// system. Its agent does not rescan by itself.
func (p *powerVM) secondHost() *powerVM {
	p.t.Helper()
	other := newPowerVM(p.t)
	for _, slot := range other.system.Slots {
		slot.Name = strings.Replace(slot.Name, "U1-", "U2-", 1)
	}
	other.write("gpus: {identification: {vendor_id: 10DE, drc_name: U2-P1-*}, resource_class: CUSTOM_GPU}\n")
	file := filepath.Join(other.dir, "berth.conf")
	text := other.conf + "\n[DEFAULT]\nhost = cmp2\n[oslo_concurrency]\nlock_path = " + other.dir +
		"\n[api]\nauth_strategy = noauth2\n[berth]\nrescan_interval = 86400\n"
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		p.t.Fatal(err)
	}
	log := slog.New(slog.NewTextHandler(p.t.Output(), nil))
	config, err := settings.Read(log, file)
	config.Times = settings.TestTimes()
	config.RequestTime = testenv.Patience
	if err != nil {
		p.t.Fatal(err)
	}
	agent, err := NewAgent(config, other.dir, p.cloud.endpoints(), log)
	if err != nil {
		p.t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- agent.Run(ctx) }()
	p.t.Cleanup(func() { stop(); <-ended })
	p.until("cmp2 reports", func() bool {
		hosts, err := p.cloud.HostClient().Hosts(p.t.Context())
		return err == nil && len(hosts) == 2
	})
	other.cloud = p.cloud
	return other
}

// serverOn returns the host and the status of a server.
func (p *powerVM) serverOn(id string) (host, status string) {
	server, err := p.compute().Server(p.t.Context(), id)
	if err != nil {
		p.t.Fatal(err)
	}
	if server.Host != nil {
		host = *server.Host
	}
	return host, server.Status
}

// Two hosts have the same DRC indices. A flavor names one slot of one host by its traits, a server moves cold to the
// other host, and one whose slots got another owner after they were claimed is built on the other host.
func TestTwoHostsWithEqualIndices_R46_R52_C7_C8_C28(t *testing.T) {
	testenv.Long(t)
	t.Parallel()
	one := newPowerVM(t)
	one.conf = strings.Replace(one.conf, "allow_resize_to_same_host = true\n", "", 1)
	one.up(one.conf)
	defer one.down()
	two := one.secondHost()
	exact := gpuSpecs(2)
	exact["trait1:CUSTOM_POWERVM_IOSLOT_DRC_INDEX_1C0FFEE2"] = "required"
	exact["trait1:CUSTOM_POWERVM_IOSLOT_DRC_NAME_U2_P1_C2"] = "required"
	a := one.boot("a", "ACTIVE", exact)
	if host, _ := one.serverOn(a.ID); host != "cmp2" || len(two.owners()) != 2 || len(one.owners()) != 0 {
		t.Errorf("%s, owners %v and %v", host, one.owners(), two.owners())
	}
	one.delete(a.ID)
	one.until("the slots are free", func() bool { return len(two.owners()) == 0 })
	one.move()
	// The agent of cmp2 does not see that its slots have another owner, so Placement still offers them.
	two.change(func(s *novalink.System) {
		for _, slot := range s.Slots {
			slot.ForeignID, slot.ForeignName = "9", "vios1"
		}
	})
	two.novalink.Requests()
	for tries := 0; !one.rescheduled(fmt.Sprintf("r%d", tries)); tries++ {
		if tries == 20 {
			t.Fatal("no server was tried on cmp2")
		}
	}
	for _, request := range two.novalink.Requests() {
		if strings.HasPrefix(request, "PUT /uom") {
			t.Errorf("sent to cmp2: %s", request)
		}
	}
}

// rescheduled creates a server, which must be built on cmp1, deletes it, and reports whether cmp2 was tried before.
func (p *powerVM) rescheduled(name string) bool {
	p.t.Helper()
	s := p.boot(name, "ACTIVE", gpuSpecs(1))
	why, err := p.compute().Why(p.t.Context(), s.ID)
	if err != nil || why.Host != "cmp1" {
		p.t.Fatalf("%s is on %s, whose slots have another owner: %v", name, why.Host, err)
	}
	p.delete(s.ID)
	return strings.Contains(why.Excluded["cmp2"], "belongs to partition 9 (vios1)")
}

// move creates a server with a GPU, and migrates it cold to the other host.
func (p *powerVM) move() {
	p.t.Helper()
	s := p.boot("moved", "ACTIVE", gpuSpecs(1))
	from, _ := p.serverOn(s.ID)
	if err := p.compute().Act(p.t.Context(), s.ID, "migrate", nil); err != nil {
		p.t.Fatal(err)
	}
	p.until("the migration", func() bool { _, status := p.serverOn(s.ID); return status == "VERIFY_RESIZE" })
	if to, _ := p.serverOn(s.ID); to == from {
		p.t.Errorf("the server stayed on %s", from)
	}
	if err := p.compute().Act(p.t.Context(), s.ID, "confirmResize", nil); err != nil {
		p.t.Fatal(err)
	}
	p.until("the confirmation", func() bool { _, status := p.serverOn(s.ID); return status == "ACTIVE" })
	p.delete(s.ID)
}

// A server with a slot is evacuated from a host whose agent does not run: its partition on the other host has a slot
// there. When the agent runs again, it deletes the former partition, and the slot is free.
func TestEvacuationWithSlots_R52(t *testing.T) {
	testenv.Long(t)
	t.Parallel()
	one := newPowerVM(t)
	one.up(one.conf)
	defer one.down()
	first := gpuSpecs(1)
	first["trait1:CUSTOM_POWERVM_IOSLOT_DRC_NAME_U1_P1_C1"] = "required"
	pinned := one.boot("pinned", "ACTIVE", first)
	s := one.boot("a", "ACTIVE", gpuSpecs(1))
	two := one.secondHost()
	if err := one.cloud.StopAgent(); err != nil {
		t.Fatal(err)
	}
	if err := one.compute().HostDown(t.Context(), "cmp1", true); err != nil {
		t.Fatal(err)
	}
	if err := one.compute().Act(t.Context(), s.ID, "evacuate", map[string]any{}); err != nil {
		t.Fatal(err)
	}
	one.until("the evacuation", func() bool {
		host, status := one.serverOn(s.ID)
		return host == "cmp2" && status == "ACTIVE"
	})
	if len(two.owners()) != 1 || len(one.owners()) != 2 {
		t.Errorf("owners on the destination %v, on the source, whose agent does not run, %v", two.owners(), one.owners())
	}
	if err := one.cloud.StartAgent(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := one.compute().HostDown(t.Context(), "cmp1", false); err != nil {
		t.Fatal(err)
	}
	one.until("the slot on the source is free", func() bool { return len(one.owners()) == 1 })
	for id, amounts := range one.allocation(s.ID) {
		if amounts["CUSTOM_GPU"] != 0 && id == one.provider(slotProvider(gpuSlot2)).ID {
			t.Errorf("the server holds a slot of its former host: %v", one.allocation(s.ID))
		}
	}
	// A server that only its own host can take is not evacuated, and keeps its slot.
	if err := one.cloud.StopAgent(); err != nil {
		t.Fatal(err)
	}
	if err := one.compute().HostDown(t.Context(), "cmp1", true); err != nil {
		t.Fatal(err)
	}
	if err := one.compute().Act(t.Context(), pinned.ID, "evacuate", map[string]any{}); err != nil {
		t.Fatal(err)
	}
	one.until("the evacuation has failed", func() bool {
		server, err := one.compute().Server(t.Context(), pinned.ID)
		return err == nil && server.TaskState == nil && *server.Host == "cmp1"
	})
	if len(one.owners()) != 1 || len(one.allocation(pinned.ID)) != 2 {
		t.Errorf("owners %v, allocation %v", one.owners(), one.allocation(pinned.ID))
	}
}
