package state

import (
	"testing"

	"github.com/openberth/berth/agent/journal"
	"github.com/openberth/berth/api/host"
	"github.com/openberth/berth/condition"
)

// Two starts that count the same number of starts, as on a copy of the agent's directory, report with other numbers,
// also after compute has refused a number as too low. Compute would take a report with the number of the last one for a
// repetition.
func TestStartsWithTheSameCountHaveOtherNumbers(t *testing.T) {
	numbers := map[int64]bool{}
	for _, id := range []string{"p1", "p2"} {
		c := &Core{Conditions: map[string][]condition.Condition{}}
		c.Record(journal.Identity{Instance: "i", Starts: 8}.Entry())
		if err := c.BeginStart(id); err != nil {
			t.Fatal(err)
		}
		for _, begun := range []int64{9, 12} {
			for range 3 {
				number := c.Report("s1", "s1", host.Guest{Phase: host.Gone}).(ReportGuest).Guest.Number
				if numbers[number] || number <= begun*SequencePerStart || number >= (begun+1)*SequencePerStart {
					t.Errorf("start %s reports with number %d", id, number)
				}
				numbers[number] = true
			}
			c.RaiseSequence(11*SequencePerStart + 5)
		}
	}
}
