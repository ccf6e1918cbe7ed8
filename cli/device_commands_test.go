package cli

import (
	"testing"
	"time"

	"github.com/openberth/berth/api/host"
)

// The state of a device has the words of the JSON form: spent, disabled, not present.
func TestStateOfDevice(t *testing.T) {
	noon := time.Date(2026, 11, 27, 12, 0, 0, 0, time.UTC)
	for want, d := range map[string]host.Device{
		"available":                       {State: "available"},
		"available, spent":                {State: "available", Spent: true},
		"available, spent, to be cleaned": {State: "available", Spent: true, Wanted: noon},
		"available, spent, not cleaned":   {State: "available", Spent: true, Wanted: noon, Refused: "no program"},
		"allocated, not present":          {State: "allocated", Holder: "s", Present: new(false)},
		"allocated":                       {State: "allocated", Holder: "s", Present: new(true)},
		"allocated, as PF, not present, disabled": {State: "allocated", Holder: "s", Slices: 2, Present: new(false),
			Disabled: true},
		"removed, disabled": {State: "removed", Present: new(false), Disabled: true},
	} {
		if got := stateText(d); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}
