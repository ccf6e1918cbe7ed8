package compute

import (
	"encoding/json"
	"reflect"
	"strings"
	"testing"
	"time"
)

func TestServerInJSON(t *testing.T) {
	moment := time.Date(2026, 1, 2, 3, 4, 5, 678, time.FixedZone("", 3600))
	s := Server{ID: "i", Image: "", Created: Time{moment}, Flavor: ServerFlavor{ID: "f"}}
	data, err := json.Marshal(s)
	if err != nil {
		t.Fatal(err)
	}
	for _, part := range []string{`"created":"2026-01-02T02:04:05Z"`, `"image":""`, `"OS-EXT-STS:task_state":null`,
		`"flavor":{"id":"f"}`} {
		if !strings.Contains(string(data), part) {
			t.Errorf("no %s in %s", part, data)
		}
	}
	for _, key := range []string{"host_status", "description", "tags", "OS-EXT-SRV-ATTR", "locked", "fault", "progress"} {
		if strings.Contains(string(data), key) {
			t.Errorf("%s is in %s", key, data)
		}
	}
	text := "d"
	s.Described, s.Tags, s.Place = &Described{&text}, []string{}, &Place{}
	s.Flavor = ServerFlavor{FlavorValues: &FlavorValues{Name: "f", RAM: 5}}
	s.Created = Time{moment.UTC().Truncate(time.Second)}
	if data, err = json.Marshal(s); err != nil {
		t.Fatal(err)
	}
	var back Server
	if err := json.Unmarshal(data, &back); err != nil || !reflect.DeepEqual(back, s) {
		t.Errorf("%v\n%+v\n%+v", err, back, s)
	}
	for swap, want := range map[Swap]string{NoSwap: `""`, 0: "0", 64: "64"} {
		data, err := json.Marshal(swap)
		var back Swap
		if err != nil || string(data) != want || json.Unmarshal(data, &back) != nil || back != max(swap, 0) {
			t.Errorf("%d: %s %v %d", swap, data, err, back)
		}
	}
}
