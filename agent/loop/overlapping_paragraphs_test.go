package loop

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/openberth/berth/agent/powervm/restclient"
	"github.com/openberth/berth/agent/powervm/slotsource"
	"github.com/openberth/berth/api/host"
	"github.com/openberth/berth/api/rest"
	"github.com/openberth/berth/fault"
	"github.com/openberth/berth/internal/novalink"
)

// overlapHost is a host on a fake NovaLink, with the source of slots and an inventory file.
type overlapHost struct {
	*testHost
	novalink *novalink.Server
	file     string
}

const (
	onlyGPUs     = "gpus: {identification: {vendor_id: 10DE}, resource_class: CUSTOM_GPU}\n"
	moreOverlaps = "(and 1 more slots; `berth agent check` lists all)"
)

// newOverlapHost returns a host with the GPUs 1C0FFEE1 and 1C0FFEE2. Each is allowed by one paragraph of its file.
func newOverlapHost(t *testing.T) *overlapHost {
	t.Helper()
	h := &overlapHost{testHost: newTestHost(t)}
	h.file = filepath.Join(h.dir, "inventory.yaml")
	h.novalink = novalink.New(novalink.Options{TokenDir: h.dir}, &novalink.System{Name: "sys1", Owner: true,
		UUID:  "11111111-2222-3333-4444-555555555555",
		Slots: []*novalink.Slot{novalink.GPU(0x1C0FFEE1, "U1-P1-C1"), novalink.GPU(0x1C0FFEE2, "U1-P1-C2")}})
	client, err := restclient.New(restclient.Options{HTTP: rest.InMemory(h.novalink)})
	must(t, err)
	h.write(onlyGPUs +
		"third slot: {identification: {drc_index: 1C0FFEE3}, resource_class: CUSTOM_GPU}\n" +
		"drawer nine: {identification: {drc_name: U9-*}, resource_class: CUSTOM_GPU}\n")
	h.options.Facts = slotsource.New(slotsource.Options{Systems: client, Files: []string{h.file}})
	h.options.Rules, h.options.Rescan = nil, time.Minute
	return h
}

func (h *overlapHost) write(text string) {
	h.t.Helper()
	must(h.t, os.WriteFile(h.file, []byte(text), 0o600))
}

// change edits the only system.
func (h *overlapHost) change(how func(system *novalink.System)) {
	h.novalink.Change(func(_ *novalink.Options, systems []*novalink.System) {
		how(systems[0])
		systems[0].Touch()
	})
}

// untilOverlap waits for the condition of a sync that overlapping paragraphs refuse.
func (h *overlapHost) untilOverlap() {
	h.t.Helper()
	h.until("the condition", func() bool {
		return strings.Contains(h.compute.conditions(), "the host cannot be reported as it is")
	})
}

// A new adapter makes two unchanged paragraphs overlap while the agent runs. Nothing of the host is written to
// Placement; a condition names the slot and both paragraphs; servers are built and deleted meanwhile. With a corrected
// file all slots are reported.
func TestNewAdapterMakesParagraphsOverlap_R16_R40_C19(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newOverlapHost(t)
		_, stop := h.startReported()
		h.compute.assign(h.slotServer("s1", 1))
		h.untilPhase(host.Running, "s1")
		s2 := h.slotServer("s2", 2)
		before := h.writes()
		h.change(func(s *novalink.System) { s.Slots = append(s.Slots, novalink.GPU(0x1C0FFEE3, "U1-P1-C3")) })
		h.untilOverlap()
		contains(t, h.compute.conditions(), "the slot 1C0FFEE3", `"gpus" (`+h.file+":1:1)",
			`"third slot" (`+h.file+":2:1)", "narrow the identification of one")

		h.compute.assign(s2) // s1 is deleted
		h.placement.remove("s1")
		h.untilPhase(host.Running, "s2")
		h.untilPhase(host.Gone, "s1")
		time.Sleep(10 * time.Minute)
		if after := h.writes(); after != before || h.provider(slotName(1)).ID == "" || h.provider(slotName(3)).ID != "" {
			t.Errorf("%d writes to Placement: %+v", after-before, h.placement.tree())
		}
		h.checkConsistent("s2")

		h.write(onlyGPUs)
		h.until("the new slot", func() bool { return h.provider(slotName(3)).Inventories[slotClass].Total == 1 })
		h.until("no condition", func() bool { return h.compute.conditions() == "" })
		must(t, stop())
	})
}

// Two slots have other names after a change of the firmware, and two paragraphs allow each. The slot of a guest stays
// with it, and its provider as it is, until the file is corrected. The free slot is given to no server, although
// Placement still has it.
func TestHeldSlotOfOverlappingParagraphsStays_R16_C21(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newOverlapHost(t)
		_, stop := h.startReported()
		defer func() { must(t, stop()) }()
		s1 := h.slotServer("s1", 1)
		h.compute.assign(s1)
		h.untilPhase(host.Running, "s1")
		before := h.provider(slotName(1))
		h.change(func(s *novalink.System) { s.Slots[0].Name, s.Slots[1].Name = "U9-P1-C1", "U9-P1-C2" })
		h.untilOverlap()
		contains(t, h.compute.conditions(), "the slot 1C0FFEE1", `"gpus" (`, `"drawer nine" (`, moreOverlaps)
		h.compute.assign(s1, h.slotServer("s2", 2))
		h.untilPhase(host.Failed, "s2")
		contains(t, h.compute.guest("s2").Message, "this host offers no device there")
		time.Sleep(10 * time.Minute)
		if after := h.provider(slotName(1)); after.Generation != before.Generation || h.compute.phase("s1") != host.Running {
			t.Errorf("%+v, then %+v; s1 is %s", before, after, h.compute.phase("s1"))
		}
		h.checkConsistent("s1")
		h.write(onlyGPUs)
		h.until("the present name", func() bool {
			return slices.Contains(h.provider(slotName(1)).Traits, "CUSTOM_POWERVM_IOSLOT_DRC_NAME_U9_P1_C1")
		})
		if p := h.provider(slotName(1)); p.ID != before.ID || p.Inventories[slotClass].Reserved != 0 {
			t.Errorf("%+v", p)
		}
		h.checkConsistent("s1")
	})
}

// Overlapping paragraphs refuse the start.
func TestOverlapRefusesTheStart_R16_C19(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newOverlapHost(t)
		h.change(func(s *novalink.System) {
			s.Slots = append(s.Slots, novalink.GPU(0x1C0FFEE3, "U1-P1-C3"), novalink.GPU(0x1C0FFEE4, "U9-P1-C4"))
		})
		contains(t, h.refusedStart(fault.Invalid), "the slot 1C0FFEE3", `"gpus" (`, `"third slot" (`, moreOverlaps)
		if h.writes() != 0 {
			t.Errorf("%d writes to Placement", h.writes())
		}
	})
}
