package view

import (
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/openberth/berth/api/placement"
	"github.com/openberth/berth/resource"
)

// A curve has a part for each time that was recorded, and a box for each that was not; nothing is drawn there.
func TestCurves(t *testing.T) {
	at := func(total, reserved, used int) *placement.StockAt {
		return &placement.StockAt{Total: total, Reserved: reserved, Used: used}
	}
	h := placement.UsageHistory{From: time.Date(2026, 11, 26, 12, 0, 0, 0, time.UTC), Step: 60,
		Classes: map[resource.Class][]*placement.StockAt{
			"VCPU":       {nil, at(8, 0, 2), at(8, 0, 2), at(8, 0, 8), nil, nil, at(8, 2, 4), at(8, 2, 4)},
			"CUSTOM_GPU": {at(1, 0, 1), at(1, 1, 0), at(0, 0, 3), nil},
			"NONE":       {nil, nil}}}
	got := Curves(h, "last day")
	if len(got) != 2 || got[0].Class != "CUSTOM_GPU" || got[1].Class != "VCPU" {
		t.Fatalf("%+v", got)
	}
	want := []Path{{"grid", "M0 84H376M94 4V84M188 4V84M282 4V84"}, {"gp", "M0 4H47V84H0zM188 4H282V84H188z"},
		{"a2", "M282 4H376V84H282zM282 24H376V84H282z"}, {"ht", "M282 4H376V84H282zM282 24H376V84H282z"},
		{"a1", "M47 64H141V4H188V84H47zM282 44H376V84H282z"}, {"a0", "M47 64H141V4H188M282 44H376"},
		{"tot", "M47 4H188M282 4H376"}}
	if !reflect.DeepEqual(got[1].Paths, want) {
		t.Errorf("%v, want\n%v", got[1].Paths, want)
	}
	if got[1].Text != "4 of 8 used, 2 reserved, at most 8" || got[1].Label != "VCPU, last day: 4 of 8 used, 2 reserved; "+
		"at most 8 of 8 on 26 Nov 15:00; not recorded: 3 of 8 steps" {
		t.Errorf("%q, %q", got[1].Text, got[1].Label)
	}
	if got[0].Text != "3 of 0 used on 26 Nov 14:00" {
		t.Errorf("%q", got[0].Text)
	}
	for _, p := range got[0].Paths { // more is used than there is: the curve stays in the plot
		if strings.Contains(p.D, "-") {
			t.Errorf("%v", p)
		}
	}
}
