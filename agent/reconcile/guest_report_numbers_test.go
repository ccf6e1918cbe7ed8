package reconcile

import (
	"testing"

	"github.com/openberth/berth/agent/journal"
	"github.com/openberth/berth/api/host"
)

// Two starts that count the same number of starts, as on a copy of the agent's directory, report with other numbers,
// also after compute has refused a number as too low. Compute would take a report with the number of the last one for a
// repetition.
func TestStartsWithTheSameCountHaveOtherNumbers(t *testing.T) {
	numbers := map[int64]bool{}
	for _, id := range []string{"p1", "p2"} {
		c := &core{conditions: map[string][]string{}}
		c.record(journal.Identity{Instance: "i", Starts: 8}.Entry())
		if err := c.beginStart(id); err != nil {
			t.Fatal(err)
		}
		for _, begun := range []int64{9, 12} {
			for range 3 {
				number := c.report("s1", "s1", host.Guest{Phase: host.Gone}).(ReportGuest).Guest.Number
				if numbers[number] || number <= begun*sequencePerStart || number >= (begun+1)*sequencePerStart {
					t.Errorf("start %s reports with number %d", id, number)
				}
				numbers[number] = true
			}
			c.raiseSequence(11*sequencePerStart + 5)
		}
	}
}
