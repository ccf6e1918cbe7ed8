package device

import (
	"encoding/json"
	"slices"
	"testing"

	"github.com/openberth/berth/fault"
	"github.com/openberth/berth/pci"
)

// The text of an ID is read back as the same ID, also from JSON, and IDs order as PCI addresses do: a domain with five
// digits comes last.
func TestID(t *testing.T) {
	var list []ID
	for _, text := range []string{"10000:e1:00.0", "0000:81:00.1", "0000:81:00.0", "ffff:00:1f.7"} {
		id, err := ParseID(text)
		if err != nil || id.String() != text {
			t.Errorf("%s: %v, %v", text, id, err)
		}
		if id != PCI(id.Address()) {
			t.Errorf("%s: address %v", id, id.Address())
		}
		data, err := json.Marshal(map[ID]ID{id: id})
		var back map[ID]ID
		if err != nil || json.Unmarshal(data, &back) != nil || back[id] != id {
			t.Errorf("%s: %s, %v, %v", id, data, back, err)
		}
		list = append(list, id)
	}
	slices.SortFunc(list, ID.Compare)
	want := []string{"0000:81:00.0", "0000:81:00.1", "ffff:00:1f.7", "10000:e1:00.0"}
	for i, id := range list {
		if id.String() != want[i] {
			t.Errorf("%v, want %v", list, want)
		}
	}
	if _, err := ParseID("enp1s0"); !fault.Is(err, fault.Invalid) {
		t.Errorf("%v", err)
	}
	var id ID
	if err := json.Unmarshal([]byte(`"nonsense"`), &id); err == nil || id != (ID{}) {
		t.Errorf("%v, %v", id, err)
	}
	if (ID{}) != PCI(pci.Address{}) {
		t.Error("the zero ID is not that of the zero address")
	}
}
