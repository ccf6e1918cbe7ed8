package store

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"reflect"
	"testing"
	"time"

	"github.com/openberth/berth/compute/lifecycle"
	"github.com/openberth/berth/compute/schedule"
	"github.com/openberth/berth/pci"
)

// compact reads an indented JSON file of testdata without its white space.
func compact(t *testing.T, file string) []byte {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("testdata", file))
	var b bytes.Buffer
	if err == nil {
		err = json.Compact(&b, text)
	}
	if err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// TestRecordOfVersion7IsUnchanged checks that records of version 7 are read and written as testdata has them. Until the
// first release, a new field is added to version 7 and to testdata.
func TestRecordOfVersion7IsUnchanged(t *testing.T) {
	text := compact(t, "records-v7/server-every-field-distinct.json")
	server, err := decodeServer("text 2", text)
	if err != nil {
		t.Fatal(err)
	}
	if at := unset("", reflect.ValueOf(server)); at != "" {
		t.Errorf("no record of version 7 has Server%s; add it to the record and to testdata", at)
	}
	if now, err := encodeServer(server); err != nil || !bytes.Equal(now, text) {
		t.Errorf("%v, a server is written as\n%s\nbefore as\n%s", err, now, text)
	}
	text = compact(t, "records-v7/host-every-field-distinct.json")
	host, err := decodeHost("text 2", text)
	if err != nil {
		t.Fatal(err)
	}
	host.Seen, host.Guests, host.Load = time.Now(), []schedule.Guest{filled[schedule.Guest]()}, 1
	if at := unset("", reflect.ValueOf(host)); at != "" {
		t.Errorf("no record of version 7 has Host%s; add it to the record and to testdata", at)
	}
	if now, err := encodeHost(host); err != nil || !bytes.Equal(now, text) {
		t.Errorf("%v, a host is written as\n%s\nbefore as\n%s", err, now, text)
	}
}

// TestRecordOfVersion5IsReadAsVersion6 checks that every field of version 5 is read as the same field of version 6,
// which adds the devices of ports that are being attached or detached.
func TestRecordOfVersion5IsReadAsVersion6(t *testing.T) {
	before, err := decodeServer("text 2", compact(t, "records-v5/server-every-field-distinct.json"))
	if err != nil {
		t.Fatal(err)
	}
	now, err := decodeServer("text 2", compact(t, "records-v6/server-every-field-distinct.json"))
	if err != nil {
		t.Fatal(err)
	}
	now.PortChange.Device, now.PortChange.Port, now.PortChange.Refused = nil, nil, ""
	if !reflect.DeepEqual(before, now) {
		t.Errorf("version 5 is read as\n%+v\nversion 6 is read as\n%+v", before, now)
	}
}

// TestRecordOfVersion4IsReadAsVersion5 checks that every field of version 4 is read as the same field of version 5,
// which adds the devices of ports, why ports cannot be bound, and the public key and the user data of a server.
func TestRecordOfVersion4IsReadAsVersion5(t *testing.T) {
	before, err := decodeServer("text 2", compact(t, "records-v4/server-every-field-distinct.json"))
	if err != nil {
		t.Fatal(err)
	}
	now, err := decodeServer("text 2", compact(t, "records-v5/server-every-field-distinct.json"))
	if err != nil {
		t.Fatal(err)
	}
	now.PortsRefused = ""
	ports := [][]lifecycle.Port{now.Ports, now.Move.From.Ports}
	for _, l := range now.Leftovers {
		ports = append(ports, l.Ports)
	}
	for _, list := range ports {
		for i := range list {
			list[i].Device, list[i].VLAN = "", 0
		}
	}
	now.PublicKey, now.UserData, now.PreRebuild.FirstBoot = "", "", nil
	if !reflect.DeepEqual(before, now) {
		t.Errorf("version 4 is read as\n%+v\nversion 5 is read as\n%+v", before, now)
	}
}

// TestRecordOfVersion3IsReadAsVersion4 checks that every field of version 3 is read as the same field of version 4,
// which adds the ports of a server, also at the source of a move and in leftovers, those of requests, one state, and
// what devices offer to ports.
func TestRecordOfVersion3IsReadAsVersion4(t *testing.T) {
	before, err := decodeServer("text 2", compact(t, "records-v3/server-every-field-distinct.json"))
	if err != nil {
		t.Fatal(err)
	}
	now, err := decodeServer("text 2", compact(t, "records-v4/server-every-field-distinct.json"))
	if err != nil {
		t.Fatal(err)
	}
	now.Networks, now.Ports, now.Move.From.Ports, now.PortChange = nil, nil, nil, nil
	requests := [][]pci.Request{now.Requests, now.Move.From.Requests}
	for i := range now.Leftovers {
		now.Leftovers[i].Ports = nil
		requests = append(requests, now.Leftovers[i].Requests)
	}
	for _, list := range requests {
		for i := range list {
			list[i].Port = nil
		}
	}
	if !reflect.DeepEqual(before, now) {
		t.Errorf("version 3 is read as\n%+v\nversion 4 is read as\n%+v", before, now)
	}
	host, err := decodeHost("text 2", compact(t, "records-v3/host-every-field-distinct.json"))
	if err != nil {
		t.Fatal(err)
	}
	nowHost, err := decodeHost("text 2", compact(t, "records-v4/host-every-field-distinct.json"))
	for i := range nowHost.Devices {
		nowHost.Devices[i].PhysicalNetwork, nowHost.Devices[i].Trusted = nil, false
	}
	if err != nil || !reflect.DeepEqual(host, nowHost) {
		t.Errorf("version 3 is read as\n%+v\nversion 4 is read as\n%+v (%v)", host, nowHost, err)
	}
}

// TestRecordOfVersion2IsReadAsVersion3 checks that every field of version 2 is read as the same field of version 3,
// which only has one more state.
func TestRecordOfVersion2IsReadAsVersion3(t *testing.T) {
	for _, read := range []func(dir string) (any, error){
		func(dir string) (any, error) {
			return decodeServer("text 2", compact(t, dir+"/server-every-field-distinct.json"))
		},
		func(dir string) (any, error) {
			return decodeHost("text 2", compact(t, dir+"/host-every-field-distinct.json"))
		},
	} {
		before, err := read("records-v2")
		if err != nil {
			t.Fatal(err)
		}
		if now, err := read("records-v3"); err != nil || !reflect.DeepEqual(before, now) {
			t.Errorf("version 2 is read as\n%+v\nversion 3 is read as\n%+v (%v)", before, now, err)
		}
	}
}

// TestRecordOfVersion1IsReadAsVersion2 checks that every field of version 1 is read as the same field of version 2.
func TestRecordOfVersion1IsReadAsVersion2(t *testing.T) {
	server, err := decodeServer("text 2", compact(t, "records-v1/server-every-field-distinct.json"))
	if err != nil {
		t.Fatal(err)
	}
	want, err := decodeServer("text 2", compact(t, "records-v2/server-every-field-distinct.json"))
	if err != nil || !reflect.DeepEqual(server, want) {
		t.Errorf("the server is read as\n%+v\nwant\n%+v (%v)", server, want, err)
	}
	host, err := decodeHost("text 2", compact(t, "records-v1/host-every-field-distinct.json"))
	if err != nil {
		t.Fatal(err)
	}
	wantHost, err := decodeHost("text 2", compact(t, "records-v2/host-every-field-distinct.json"))
	if err != nil || !reflect.DeepEqual(host, wantHost) {
		t.Errorf("the host is read as\n%+v\nwant\n%+v (%v)", host, wantHost, err)
	}
}
