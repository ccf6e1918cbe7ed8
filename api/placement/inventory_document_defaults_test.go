package placement

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/openberth/berth/resource"
)

func TestInventoryDocDefaults(t *testing.T) {
	var doc InventoryDoc
	if err := json.Unmarshal([]byte(`{"total":4}`), &doc); err != nil {
		t.Fatal(err)
	}
	want := resource.Inventory{Total: 4, MinUnit: 1, MaxUnit: resource.MaxAmount, StepSize: 1, AllocationRatio: 1}
	if got := doc.Inventory(); got != want {
		t.Errorf("%+v, want %+v", got, want)
	}
	for ratio, text := range map[float64]string{1: "1.0", 1.5: "1.5", 16: "16.0", 1e30: "1e+30"} {
		want.AllocationRatio = ratio
		data, err := json.Marshal(NewInventoryDoc(want))
		if err != nil || !strings.Contains(string(data), `"allocation_ratio":`+text+"}") {
			t.Errorf("%g: %s %v", ratio, data, err)
		}
	}
}
