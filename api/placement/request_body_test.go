package placement

import (
	"encoding/json"
	"reflect"
	"strings"
	"testing"

	"github.com/openberth/berth/fault"
	"github.com/openberth/berth/provider"
	"github.com/openberth/berth/resource"
)

func bodies(t *testing.T) *Bodies {
	t.Helper()
	return NewBodies()
}

// Every schema can be compiled; a request would otherwise be the first to find that.
func TestSchemasCompile(t *testing.T) {
	count := 0
	for body, editions := range NewBodies().schemas {
		for _, e := range editions {
			count++
			if _, err := e.compile(); err != nil {
				t.Errorf("%s since %s: %v", body, e.since, err)
			}
		}
	}
	if count < 20 {
		t.Errorf("%d schemas", count)
	}
}

func TestBodyErrorsNameThePlace(t *testing.T) {
	b := bodies(t)
	claim := func(more string) string {
		return `{"allocations":{"` + uuidA + `":{"resources":{"VCPU":1}}},"project_id":"p","user_id":"u"` + more + `}`
	}
	const new138 = `,"consumer_generation":null,"consumer_type":"INSTANCE"`
	for _, c := range []struct {
		body Body
		v    Version
		text string
		want string // "" when it is right
	}{
		{BodyNewProvider, 39, `{"name":"n"}`, ""},
		{BodyNewProvider, 39, `{"name":"n"} x`, "Malformed JSON"},
		{BodyNewProvider, 39, ``, "Malformed JSON"},
		{BodyNewProvider, 39, "{\"name\":\"\xff\"}", "UTF-8"},
		{BodyNewProvider, 39, `{"name":"\ud83d\ude00\\ud83d\n\u0041"}`, ""},
		{BodyNewProvider, 39, `{"name":"\ud83d"}`, "surrogate"},
		{BodyNewProvider, 39, `{"name":"\ude00\ud83d"}`, "surrogate"},
		{BodyNewProvider, 39, `{"name":"\\\uD83Dx"}`, "surrogate"},
		{BodyNewProvider, 39, `{"name":"\ud83d\u0041"}`, "surrogate"},
		{BodyNewProvider, 39, `{"name":"\`, "Malformed JSON"},
		{BodyNewProvider, 39, `{"name":"\ud8`, "Malformed JSON"},
		{BodyNewProvider, 39, `{"name":"n","Name":"n"}`, "'Name' not allowed"},
		{BodyNewProvider, 39, `{"name":"` + strings.Repeat("n", 201) + `"}`, "/name"},
		{BodyNewProvider, 39, `{"name":"n","parent_provider_uuid":null}`, ""},
		{BodyNewProvider, 13, `{"name":"n","parent_provider_uuid":null}`, "parent_provider_uuid"},
		{BodyProvider, 39, `{"name":"n","uuid":"` + uuidA + `"}`, "uuid"},
		{BodyInventories, 39, `{"resource_provider_generation":1,"inventories":{"VCPU":{"total":1,"max_unit":0}}}`,
			"/inventories/VCPU/max_unit"},
		{BodyInventories, 39, `{"resource_provider_generation":1.5,"inventories":{}}`, "/resource_provider_generation"},
		{BodyInventories, 39, `{"resource_provider_generation":true,"inventories":{}}`, "/resource_provider_generation"},
		{BodyInventory, 39, `{"total":1}`, "resource_provider_generation"},
		{BodyNewInventory, 39, `{"total":1,"resource_class":"VCPU"}`, ""},
		{BodyAggregates, 18, `["` + uuidA + `"]`, ""},
		{BodyAggregates, 19, `["` + uuidA + `"]`, "want object"},
		{BodyAggregates, 18, `["` + uuidA + `","` + uuidA + `"]`, "equal"},
		{BodyTraits, 6, `{"resource_provider_generation":0,"traits":[""]}`, "/traits/0"},
		{BodyClass, 2, `{"name":"VCPU"}`, "/name"},
		{BodyAllocation, 0, `{"allocations":[]}`, "/allocations"},
		{BodyAllocation, 11, claim(""), "/allocations"},
		{BodyAllocation, 27, claim(""), ""},
		{BodyAllocation, 28, claim(""), "consumer_generation"},
		{BodyAllocation, 33, claim(`,"consumer_generation":1,"mappings":{"":["` + uuidA + `"]}`), "mappings"},
		{BodyAllocation, 34, claim(`,"consumer_generation":1,"mappings":{"_A":["` + uuidA + `"]}`), ""},
		{BodyAllocation, 34, claim(`,"consumer_generation":1,"mappings":{"_A":["x"]}`), "/mappings/_A/0"},
		{BodyAllocation, 37, claim(new138), "consumer_type"},
		{BodyAllocation, 38, claim(new138), ""},
		{BodyAllocation, 38, claim(`,"consumer_generation":"1","consumer_type":"INSTANCE"`), "/consumer_generation"},
		{BodyAllocation, 38, strings.Replace(claim(new138), `"VCPU":1`, `"VCPU":0`, 1), "/resources/VCPU"},
		{BodyAllocation, 38, strings.Replace(claim(new138), `"VCPU":1`, `"vcpu":1`, 1), "'vcpu' not allowed"},
		{BodyAllocation, 38, strings.Replace(claim(new138), `"VCPU":1`, ``, 1), "minProperties"},
		{BodyAllocation, 38, strings.Replace(claim(new138), `"VCPU":1`, `"VCPU":99999999999999999999999`, 1), ""},
		{BodyAllocation, 38, strings.Replace(claim(new138), `"VCPU":1`, `"VCPU":`+strings.Repeat("9", 5000), 1),
			"more than 4300 digits"},
		{BodyInventories, 39, `{"resource_provider_generation":1e30,"inventories":{}}`, ""},
		{BodyInventories, 39, `{"resource_provider_generation":1e1000001,"inventories":{}}`, "1e1000001 is too large"},
		{BodyInventories, 39, `{"resource_provider_generation":1e-1000001,"inventories":{}}`, ""},
		{BodyInventories, 39, `{"resource_provider_generation":1,"inventories":{"VCPU":{"total":1,` +
			`"allocation_ratio":1e30}}}`, ""},
		{BodyInventories, 39, `{"resource_provider_generation":1,"inventories":{"VCPU":{"total":1,` +
			`"allocation_ratio":3.402821e38}}}`, "/inventories/VCPU/allocation_ratio"},
		{BodyAllocations, 38, `{}`, "minProperties"},
		{BodyAllocations, 38, `{"x":` + claim(new138) + `}`, "'x' not allowed"},
		{BodyReshape, 30, `{"inventories":{},"allocations":{}}`, "/inventories"},
		{BodyReshape, 29, `{}`, "no body at microversion 1.29"},
	} {
		var into any
		if c.body == BodyAllocation && c.v > 11 {
			into = &AllocationsDoc{}
		} else {
			into = new(any)
		}
		err := b.Read(c.body, c.v, []byte(c.text), into)
		if c.want == "" {
			if err != nil {
				t.Errorf("%s at %s: %s: %v", c.body, c.v, c.text, err)
			}
			continue
		}
		if err == nil || !strings.Contains(fault.TextOf(err), c.want) {
			t.Errorf("%s at %s: %s: %v, want an error with %q", c.body, c.v, c.text, err, c.want)
		}
	}
}

// The validated value is decoded: integers in any notation, and the last of two members with the same name.
func TestDecodedValueIsTheValidatedOne(t *testing.T) {
	var got AllocationsDoc
	text := `{"allocations":{"` + uuidA + `":{"resources":{"VCPU":-7,"DISK_GB":5}}},"allocations":{"` + uuidB +
		`":{"resources":{"VCPU":1e1,"MEMORY_MB":2.0}}},
		"project_id":"p","user_id":"u","consumer_generation":3.0,"consumer_type":"X"}`
	if err := bodies(t).Read(BodyAllocation, 38, []byte(text), &got); err != nil {
		t.Fatal(err)
	}
	three := 3
	want := ConsumerAllocation{Allocation: resource.Allocation{uuidB: {"VCPU": 10, "MEMORY_MB": 2}}, Generation: &three,
		Project: "p",
		User:    "u", ConsumerType: "X"}
	if !reflect.DeepEqual(got.Held(), want) {
		t.Errorf("%+v, want %+v", got.Held(), want)
	}
}

// The bodies that the client writes follow the schemas of the newest microversion.
func TestClientBodiesFollowTheSchemas(t *testing.T) {
	parent, one := provider.ID(uuidB), 1
	held := ConsumerAllocation{Allocation: resource.Allocation{uuidA: {"VCPU": 1}, uuidB: {}},
		Mappings: map[string][]provider.ID{"": {uuidA}}, Generation: &one, Project: "p", User: "u", ConsumerType: "INSTANCE"}
	stock := map[resource.Class]resource.Inventory{"VCPU": resource.Whole(4)}
	for body, doc := range map[Body]any{
		BodyNewProvider: NewProvider{Name: "n", UUID: uuidA, Parent: &parent},
		BodyInventories: inventoriesDoc(1, stock),
		BodyTraits:      ProviderTraitsDoc{Generation: 1, Traits: []resource.Trait{}},
		BodyAllocation:  allocationsDoc(held),
		BodyAllocations: map[string]any{uuidA: allocationsDoc(ConsumerAllocation{Project: "p", User: "u",
			ConsumerType: "X"})},
		BodyReshape: reshapeDoc(Reshape{Inventories: map[provider.ID]InventorySet{uuidA: {Generation: 1, Inventories: stock},
			uuidB: {}},
			Allocations: map[resource.ConsumerID]ConsumerAllocation{uuidC: held}}),
	} {
		text, err := json.Marshal(doc)
		if err != nil {
			t.Fatal(err)
		}
		if err := bodies(t).Read(body, Latest, text, new(any)); err != nil {
			t.Errorf("%s: %s: %v", body, text, err)
		}
	}
}

func TestNamesKeepTheirOrder(t *testing.T) {
	got := Names([]byte(`{"b": {"x": 1}, "a": {"z": [1, {"k": 2}], "y": {}, "z2": null}}`), "a")
	if strings.Join(got, " ") != "z y z2" {
		t.Error(got)
	}
	for _, text := range []string{`{}`, `[]`, `{"a": 5}`, `{"a": {`, ``} {
		if got := Names([]byte(text), "a"); len(got) > 0 {
			t.Errorf("%s: %v", text, got)
		}
	}
}
