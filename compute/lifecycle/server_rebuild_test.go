package lifecycle

import (
	"reflect"
	"testing"
	"time"

	"github.com/openberth/berth/compute/flavor"
	"github.com/openberth/berth/resource"
)

// A rebuild takes the image in as it is then; the next move does not ask for what only the image before required.
func TestRebuildChangesTheImage(t *testing.T) {
	old := flavor.Image{ID: "old", Properties: map[string]string{"trait:CUSTOM_A": "required"}}
	now := flavor.Image{ID: "new"}
	ask := resource.Ask{Groups: []resource.Group{{Resources: resource.Amounts{"VCPU": 1},
		Required: [][]resource.Trait{{"CUSTOM_A"}}}}}
	s := Server{ID: "s", State: Active, Host: "h", Image: "old", ImageSnapshot: &old, Flavor: flavor.Flavor{VCPUs: 1},
		Ask: ask}
	for _, c := range []struct {
		name    string
		request ActionRequested
		want    Server
	}{
		{"another, looked at", ActionRequested{Image: "new", ImageSnapshot: &now}, Server{Image: "new", ImageSnapshot: &now,
			Ask: resource.Ask{Groups: []resource.Group{{Resources: resource.Amounts{"VCPU": 1},
				Required: [][]resource.Trait{}}}}}},
		{"another, not looked at", ActionRequested{Image: "new"}, Server{Image: "new", Ask: ask}},
		{"its own", ActionRequested{Image: "old", ImageSnapshot: &old}, Server{Image: "old", ImageSnapshot: &old, Ask: ask}},
		{"none named", ActionRequested{}, Server{Image: "old", ImageSnapshot: &old, Ask: ask}},
	} {
		t.Run(c.name, func(t *testing.T) {
			c.request.ID, c.request.Action = "w", Rebuild
			got, _ := Next(s, c.request, time.Unix(1, 0))
			if got.LastAction != "w" || got.Task != Rebuilding || got.Image != c.want.Image ||
				!reflect.DeepEqual(got.ImageSnapshot, c.want.ImageSnapshot) || !reflect.DeepEqual(got.Ask, c.want.Ask) {
				t.Errorf("%s %s %+v %+v", got.Task, got.Image, got.ImageSnapshot, got.Ask)
			}
			back, _ := Next(got, GuestRefused{Host: "h", Consumer: "s", Message: "no such disk"}, time.Unix(2, 0))
			if back.Image != s.Image || !reflect.DeepEqual(back.ImageSnapshot, s.ImageSnapshot) || !reflect.DeepEqual(back.Ask,
				s.Ask) || back.Builds != 0 || back.PreRebuild != nil || back.Task != "" {
				t.Errorf("refused: %s %+v %+v, build %d", back.Image, back.ImageSnapshot, back.Ask, back.Builds)
			}
			done, _ := Next(got, GuestRunning{Host: "h", Consumer: "s", Build: got.Builds}, time.Unix(2, 0))
			if done.Image != c.want.Image || done.PreRebuild != nil || done.Task != "" {
				t.Errorf("done: %s %+v %s", done.Image, done.PreRebuild, done.Task)
			}
		})
	}
	if s.Ask.Groups[0].Required == nil {
		t.Error("the server given was changed")
	}
	if (Server{Image: "i"}).SourceImage().ID != "i" {
		t.Error("an image without details does not have its id")
	}
}

// A record from a backup knows of fewer rebuilds than there were.
func TestRebuildWithAnOlderRecord(t *testing.T) {
	s := Server{ID: "s", State: Active, Host: "a", Builds: 1}
	if s = applyAll(s, GuestRunning{Host: "a", Consumer: "s", Build: 3}); s.Builds != 3 {
		t.Errorf("%d builds are known, the guest has 3", s.Builds)
	}
	s = Server{ID: "s", State: Active, Host: "a", Builds: 1}
	s = applyAll(s, ActionRequested{ID: "w", Action: Rebuild}, GuestRunning{Host: "a", Consumer: "s", Build: 3})
	if s.Builds != 4 || s.Task != Rebuilding {
		t.Errorf("%d builds, %q: the rebuild is yet to come", s.Builds, s.Task)
	}
	if s = applyAll(s, GuestRunning{Host: "a", Consumer: "s", Build: 4}); s.Builds != 4 || s.Task != "" {
		t.Errorf("%d builds, %q", s.Builds, s.Task)
	}
}
