package reconcile

import (
	"testing"
	"time"

	"github.com/openberth/berth/agent/device"
	"github.com/openberth/berth/agent/reconcile/state"
	"github.com/openberth/berth/api/host"
	"github.com/openberth/berth/condition"
	"github.com/openberth/berth/fault"
	"github.com/openberth/berth/pci"
)

// A request that arrives while the same device is cleaned is answered by a cleaning of its own, not by the earlier one.
func TestARepeatedCleanRequestHasItsOwnAnswer(t *testing.T) {
	at := pci.Address{Bus: 0x80}
	set, err := device.Restore([]device.Offer{{Offered: pci.Offered{
		Device: pci.Device{Address: at, Type: pci.Plain}, Spent: true, OneTimeUse: true}}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	c := &cleaner{Core: &state.Core{Conditions: map[string][]condition.Condition{}}, last: map[device.ID]time.Time{},
		answers: map[string]host.CleanResult{}, failures: map[device.ID]int{}}
	c.Set = set
	first := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	second := first.Add(time.Minute)
	c.receive([]host.CleanRequest{{Address: at.String(), Asked: first}})
	c.advance()
	c.receive([]host.CleanRequest{{Address: at.String(), Asked: second}})
	c.ended(fault.New(fault.Internal, "the program failed"))
	c.advance()
	if got := c.results(); len(got) != 1 || !got[0].Asked.Equal(first) {
		t.Errorf("%+v is answered while the second cleaning is in progress", got)
	}
	c.receive([]host.CleanRequest{{Address: at.String(), Asked: second}})
	c.ended(nil)
	c.advance()
	if got := c.results(); len(got) > 0 {
		t.Errorf("%+v is answered before the journal is written", got)
	}
	c.NextWrite(c.Now)
	c.Wrote()
	c.advance()
	if got := c.results(); len(got) != 1 || !got[0].Asked.Equal(second) || got[0].Refused != "" {
		t.Errorf("the last answer is %+v", got)
	}
}
