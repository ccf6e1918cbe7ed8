package network

import (
	"encoding/json"
	"reflect"
	"testing"

	"github.com/openberth/berth/resource"
)

// TestBothFormatsOfARequest decodes the formats before and since port-resource-request-groups.
func TestBothFormatsOfARequest(t *testing.T) {
	group := RequestGroup{Required: []string{"CUSTOM_PHYSNET_P"},
		Resources: resource.Amounts{"NET_BW_EGR_KILOBIT_PER_SEC": 1}}
	named := group
	named.ID = "g"
	for text, want := range map[string]*ResourceRequest{
		`{"resource_request": null}`: nil,
		`{"resource_request": {"resources": {"NET_BW_EGR_KILOBIT_PER_SEC": 1}, "required": ["CUSTOM_PHYSNET_P"]}}`: {
			Groups: []RequestGroup{group}},
		`{"resource_request": {"request_groups": [{"id": "g", "required": ["CUSTOM_PHYSNET_P"],
			"resources": {"NET_BW_EGR_KILOBIT_PER_SEC": 1}}], "same_subtree": ["g"]}}`: {Groups: []RequestGroup{named},
			SameSubtree: []string{"g"}},
		`{"resource_request": {}}`: {},
		`{"resource_request": {"request_groups": [], "same_subtree": []}}`: {Groups: []RequestGroup{},
			SameSubtree: []string{}},
		`{"resource_request": {"request_groups": [{"id": "g"}]}}`: {Groups: []RequestGroup{{ID: "g"}}},
		`{"resource_request": {"resources": {"NET_BW_EGR_KILOBIT_PER_SEC": 1}}}`: {
			Groups: []RequestGroup{{Resources: group.Resources}}},
	} {
		var p Port
		if err := json.Unmarshal([]byte(text), &p); err != nil || !reflect.DeepEqual(p.Request, want) {
			t.Errorf("%s: %+v %v, want %+v", text, p.Request, err, want)
		}
	}
}

// TestBothFormatsOfAnAllocation reads a text and an object.
func TestBothFormatsOfAnAllocation(t *testing.T) {
	for text, want := range map[string]map[string]string{
		`{"binding:profile": {}}`:                         {},
		`{"binding:profile": {"allocation": "r"}}`:        {"": "r"},
		`{"binding:profile": {"allocation": {"g": "r"}}}`: {"g": "r"},
	} {
		var p Port
		if err := json.Unmarshal([]byte(text), &p); err != nil || !reflect.DeepEqual(p.Allocation(), want) {
			t.Errorf("%s: %v %v", text, p.Allocation(), err)
		}
	}
}
