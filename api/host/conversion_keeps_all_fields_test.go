package host_test

import (
	"encoding/json"
	"reflect"
	"testing"

	"github.com/openberth/berth/api/host"
	"github.com/openberth/berth/numa"
	"github.com/openberth/berth/pci"
	"github.com/openberth/berth/resource"
)

// fill sets every field of a value to a value other than zero, so that a missing conversion is detected.
func fill(v reflect.Value) {
	switch v.Kind() {
	case reflect.Struct:
		for i := range v.NumField() {
			fill(v.Field(i))
		}
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 1, 1))
		fill(v.Index(0))
	case reflect.Map:
		v.Set(reflect.MakeMap(v.Type()))
		key, value := reflect.New(v.Type().Key()).Elem(), reflect.New(v.Type().Elem()).Elem()
		fill(key)
		fill(value)
		v.SetMapIndex(key, value)
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		fill(v.Elem())
	case reflect.Bool:
		v.SetBool(true)
	case reflect.Int:
		v.SetInt(7)
	case reflect.Uint8, reflect.Uint32:
		v.SetUint(3)
	case reflect.Float64:
		v.SetFloat(1.5)
	case reflect.String:
		v.SetString("w")
	}
}

// over encodes and decodes a value.
func over[T any](t *testing.T, v T) (out T) {
	t.Helper()
	data, err := json.Marshal(v)
	if err == nil {
		err = json.Unmarshal(data, &out)
	}
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// TestConversionsKeepAllFields tests that each type equals itself after conversion, encoding and decoding.
func TestConversionsKeepAllFields(t *testing.T) {
	var cells []numa.Cell
	var nodes numa.Topology
	var guestCells []numa.GuestCell
	var placed []numa.Placed
	for _, v := range []any{&cells, &nodes, &guestCells, &placed} {
		fill(reflect.ValueOf(v).Elem())
	}
	report := over(t, host.Report{Cells: host.WriteCells(cells), Nodes: host.WriteNodes(nodes),
		CPURatio: 4, MemRatio: 1.5})
	if got, want := report.Resources(), (numa.Host{Cells: cells, Nodes: nodes, Limits: numa.Limits{CPU: 4,
		Memory: 1.5}}); !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v\nwant %+v", got, want)
	}
	server := over(t, host.Server{Topology: host.WriteGuestCells(guestCells)})
	if got := host.ReadGuestCells(server.Topology); !reflect.DeepEqual(got, guestCells) {
		t.Errorf("got %+v\nwant %+v", got, guestCells)
	}
	guest := over(t, host.Guest{Cells: host.WritePlaced(placed)})
	if got := host.ReadPlaced(guest.Cells); !reflect.DeepEqual(got, placed) {
		t.Errorf("got %+v\nwant %+v", got, placed)
	}
	var request pci.Request
	fill(reflect.ValueOf(&request).Elem())
	// An alternative has the same type, class and traits as the first definition.
	request.Alternatives[0] = pci.Requirement{Vendor: "v", Product: "p", Class: "C", LiveMigratable: pci.No,
		Type:     request.Requirement.Type,
		Required: request.Requirement.Required, Forbidden: request.Requirement.Forbidden}
	if got := over(t, host.WriteRequest(request)).PCIRequest(); !reflect.DeepEqual(got, request) {
		t.Errorf("got %+v\nwant %+v", got, request)
	}
	plain := pci.Request{ID: "R", Count: 1, Requirement: pci.Requirement{Class: resource.Class("CUSTOM_X")},
		Policy: pci.Legacy}
	if got := over(t, host.WriteRequest(plain)).PCIRequest(); !reflect.DeepEqual(got, plain) {
		t.Errorf("got %+v\nwant %+v", got, plain)
	}
}

// TestDeviceConversionKeepsAllFields tests that an offered device equals itself after conversion, encoding and
// decoding, for each kind of device for ports. A field that a report does not have is named here.
func TestDeviceConversionKeepsAllFields(t *testing.T) {
	var d pci.Offered
	fill(reflect.ValueOf(&d).Elem())
	d.Address.DRC, d.Parent.DRC, d.Bridges[0].DRC = 0, 0, 0 // PCI addresses
	d.Class, d.TotalVFs, d.NumVFs, d.VFProduct, d.Net = 0, 0, 0, "", nil
	remote, alias, nic := d, d, d
	remote.Type = pci.Virtual
	alias.Type, alias.RemoteManaged, alias.ForPorts = pci.Plain, false, false
	alias.Serial, alias.PFMAC, alias.VFNumber, alias.Parent = "", "", 0, nil
	nic.Type, nic.RemoteManaged, nic.Serial, nic.VFNumber = pci.Physical, false, "", 0
	for name, want := range map[string]pci.Offered{"remote-managed VF": remote, "device for aliases": alias, "NIC": nic} {
		got, err := over(t, host.WriteDevice("h", want)).Read("h")
		if err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("%s: %v\n got %#v\nwant %#v", name, err, got, want)
		}
	}
}

// The lists of documents are never null, so an empty list is not nil.
func TestStringsOfAnEmptyListAreNotNil(t *testing.T) {
	for _, list := range [][]resource.Class{nil, {}} {
		if got := host.Strings(list); got == nil || len(got) != 0 {
			t.Errorf("%#v becomes %#v", list, got)
		}
	}
	if got, want := host.Strings([]resource.Class{"A", "B"}), []string{"A", "B"}; !reflect.DeepEqual(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}
