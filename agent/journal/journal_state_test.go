package journal

import (
	"fmt"
	"math/rand/v2"
	"reflect"
	"testing"
	"time"

	"github.com/openberth/berth/agent/device"
	"github.com/openberth/berth/provider"
	"github.com/openberth/berth/resource"
)

// randomEntry returns an entry of a random kind about a few servers, devices and providers.
func randomEntry(rng *rand.Rand) Entry {
	server := func() string { return fmt.Sprintf("s%d", rng.IntN(4)) }
	id, err := device.ParseID(fmt.Sprintf("0000:3b:00.%d", rng.IntN(4)))
	if err != nil {
		panic(err)
	}
	switch rng.IntN(14) {
	case 0:
		return Identity{Host: "h", Provider: "p", Starts: rng.Int64N(3)}.Entry()
	case 1:
		return Position{Epoch: 1, EpochID: "e", Revision: rng.Int64N(3)}.Entry()
	case 2:
		return Starts([]string{"a", "b"}[:rng.IntN(3)])
	case 3, 4:
		return Put(server(), []device.Claim{claim("s", "r", id.String())}, GuestCell{MemoryMB: 1})
	case 5:
		return Gone(server())
	case 6:
		return Removed(server(), time.Unix(rng.Int64N(200_000), 0))
	case 7:
		return OwnedBy(provider.ID(server()), Owned{Classes: []resource.Class{"CUSTOM_A", "VCPU"}[:rng.IntN(3)]})
	case 8:
		return Renamed(server(), server(), rng.IntN(2) == 0)
	case 9:
		return RenameForgotten(server())
	case 10:
		return Used(id, Spent{Provider: "p"})
	case 11:
		return Built(server(), rng.IntN(3))
	case 12:
		return Unbuilt(server())
	}
	return Cleaned(id)
}

// A State is immutable: With changes no earlier state, although states share the maps that its entries do not change.
// Each state is that of its entries one by one, and size is the number of lines that it needs.
func TestStatesAreImmutable(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	for range 300 {
		state, alone := emptyState(), emptyState()
		for range 20 {
			var batch []Entry
			for range 1 + rng.IntN(3) {
				batch = append(batch, randomEntry(rng))
			}
			before := state.entries()
			next := state.With(batch...)
			if after := state.entries(); !reflect.DeepEqual(after, before) {
				t.Fatalf("%+v changed the earlier state\n%+v\nto\n%+v", batch, before, after)
			}
			for _, e := range batch {
				alone = alone.With(e)
			}
			if !reflect.DeepEqual(next, alone) {
				t.Fatalf("%+v:\n%+v, one by one\n%+v", batch, next, alone)
			}
			if next.size() != len(next.entries()) {
				t.Fatalf("size is %d, the state needs %d lines", next.size(), len(next.entries()))
			}
			again := emptyState().With(next.entries()...)
			if !reflect.DeepEqual(again.entries(), next.entries()) {
				t.Fatalf("%+v is written and read as\n%+v", next, again)
			}
			state = next
		}
	}
}
