package slotsource

import (
	"slices"
	"testing"

	"github.com/openberth/berth/agent/powervm/ioslot"
	"github.com/openberth/berth/fault"
	"github.com/openberth/berth/internal/novalink"
)

// FuzzRecorded reads any bytes as a recorded answer. A payload is refused as Invalid, or it becomes slots with
// different indices, in order. Reading it again gives the same.
func FuzzRecorded(f *testing.F) {
	for _, name := range novalink.RecordedNames() {
		f.Add(novalink.Recorded(name))
	}
	for _, text := range []string{"", "<feed", "<feed/>", "<entry></entry>", ":feed>", "<a:feed></a:feed>", "entry><entry",
		"HTTP/1.1 200 OK\r\n\r\n<feed></feed>", "\xff\xfe<\x00f\x00", "<feed><entry><content/></entry></feed>"} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, payload []byte) {
		object, err := Recorded{Path: "system.xml"}.decode(payload)
		if err != nil {
			if fault.KindOf(err) != fault.Invalid {
				t.Errorf("refused with %v", err)
			}
			return
		}
		system := ioslot.FromSystem(object, nil)
		if !system.Reported && len(system.Slots) > 0 {
			t.Errorf("%d slots of a system that reports none", len(system.Slots))
		}
		for i, slot := range system.Slots[:max(len(system.Slots)-1, 0)] {
			if slot.Index >= system.Slots[i+1].Index {
				t.Errorf("slot %v is before %v", slot.Index, system.Slots[i+1].Index)
			}
		}
		again := ioslot.FromSystem(object, nil)
		if !slices.Equal(system.Problems, again.Problems) || len(system.Slots) != len(again.Slots) {
			t.Error("reading the same object twice differs")
		}
	})
}
