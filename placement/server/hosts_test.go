package server

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"reflect"
	"slices"
	"strings"
	"testing"

	api "github.com/openberth/berth/api/placement"
	"github.com/openberth/berth/fault"
	"github.com/openberth/berth/hosttree"
	"github.com/openberth/berth/placement/index"
	"github.com/openberth/berth/provider"
	"github.com/openberth/berth/resource"
)

// consumerOf returns the id of a consumer of these tests.
func consumerOf(n int) string { return fmt.Sprintf("c0000000-0000-4000-8000-%012d", n) }

// deviceCloud fills a Placement with two hosts, of which one has devices of several kinds, and a storage pool.
func deviceCloud(t *testing.T, w *world) (host provider.ID) {
	t.Helper()
	c, ctx := w.client(), t.Context()
	put := func(name string, parent provider.ID, traits []resource.Trait, inv map[resource.Class]resource.Inventory) (
		id provider.ID) {
		p, err := c.CreateProvider(ctx, "", name, parent)
		if err != nil {
			t.Fatal(err)
		}
		for class := range inv {
			if strings.HasPrefix(string(class), "CUSTOM_") {
				if err := c.EnsureClass(ctx, class); err != nil {
					t.Fatal(err)
				}
			}
		}
		n, err := c.PutInventories(ctx, p.ID, p.Generation, inv)
		if err == nil && len(traits) > 0 {
			_, err = c.PutTraits(ctx, p.ID, n, traits)
		}
		if err != nil {
			t.Fatal(err)
		}
		return p.ID
	}
	type inventories = map[resource.Class]resource.Inventory
	host = put("cmp2", "", nil, inventories{"VCPU": resource.Whole(8)})
	vfs := put("cmp2_0000:81:00.0", host, []resource.Trait{"HW_NIC_SRIOV"},
		inventories{"SRIOV_NET_VF": resource.Whole(4)})
	put("cmp2_0000:82:00.0", host, nil, inventories{"CUSTOM_GPU": {Total: 1, Reserved: 1, MinUnit: 1, MaxUnit: 1,
		StepSize: 1, AllocationRatio: 1}})
	put("cmp2_pci_0000_84_00_0", host, nil, inventories{"VGPU": resource.Whole(16)})
	put("cmp2_NUMA0", host, nil, inventories{"PCPU": resource.Whole(4)})
	agent := put("cmp2:NIC Switch agent", host, nil, inventories{})
	nic := put("cmp2:NIC Switch agent:eth1", agent, nil, inventories{
		"NET_BW_EGR_KILOBIT_PER_SEC": resource.Whole(1000), "NET_BW_IGR_KILOBIT_PER_SEC": resource.Whole(1000)})
	put("cmp1", "", nil, inventories{"VCPU": resource.Whole(2)})
	put("nfs", "", []resource.Trait{"MISC_SHARES_VIA_AGGREGATE"}, inventories{"DISK_GB": resource.Whole(100)})
	w.want(204, "PUT", "/allocations/"+consumerOf(1), fmt.Sprintf(`{"allocations":{"%s":{"resources":{"VCPU":3}},`+
		`"%s":{"resources":{"SRIOV_NET_VF":2}},"%s":{"resources":{"NET_BW_EGR_KILOBIT_PER_SEC":1000}}},"project_id":"p",`+
		`"user_id":"u","consumer_generation":null,"consumer_type":"INSTANCE"}`, host, vfs, nic))
	w.want(204, "PUT", "/allocations/"+consumerOf(2), fmt.Sprintf(
		`{"allocations":{"%s":{"resources":{"SRIOV_NET_VF":1}}},`+
			`"project_id":"q","user_id":"v","consumer_generation":null,"consumer_type":"MIGRATION"}`, vfs))
	return host
}

// The lists have what Placement has of each host and device, and the paths of one host and of one device the same.
func TestHostsAndDevices(t *testing.T) {
	w := newWorld(t)
	host := deviceCloud(t, w)
	devices, err := w.client().Devices(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, d := range devices {
		holders := ""
		for _, h := range d.Holders {
			holders += fmt.Sprintf(" %s:%d:%s:%s:%s", h.Consumer[35:], h.Amount, h.Type, h.Project, h.User)
		}
		got = append(got, fmt.Sprintf("%s %s|%s|%s|%s|%d/%d of %d, %d reserved|%s|%s", d.Host, d.Address, d.Kind, d.Name,
			d.Class, d.Used, d.Capacity, d.Total, d.Reserved, d.State, holders))
	}
	want := []string{
		"cmp2 0000:81:00.0|pci|cmp2_0000:81:00.0|SRIOV_NET_VF|3/4 of 4, 0 reserved|partly allocated|" +
			" 1:2:INSTANCE:p:u 2:1:MIGRATION:q:v",
		"cmp2 0000:82:00.0|pci|cmp2_0000:82:00.0|CUSTOM_GPU|0/0 of 1, 1 reserved|reserved|",
		"cmp2 0000:84:00.0|mdev|cmp2_pci_0000_84_00_0|VGPU|0/16 of 16, 0 reserved|available|",
		"cmp2 NIC Switch agent:eth1|bandwidth|cmp2:NIC Switch agent:eth1|NET_BW_EGR_KILOBIT_PER_SEC|1000/1000 of 1000, " +
			"0 reserved|allocated| 1:1000:INSTANCE:p:u",
		"cmp2 NIC Switch agent:eth1|bandwidth|cmp2:NIC Switch agent:eth1|NET_BW_IGR_KILOBIT_PER_SEC|0/1000 of 1000, " +
			"0 reserved|available|"}
	if !reflect.DeepEqual(got, want) || devices[0].Traits[0] != "HW_NIC_SRIOV" {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	hosts, err := w.client().Hosts(t.Context())
	if err != nil || len(hosts) != 2 || hosts[0].Host != "cmp1" || hosts[1].Provider != host || hosts[1].Devices != 3 ||
		hosts[1].Held != 1 || !slices.Equal(hosts[1].Resources, []hosttree.Amount{{Class: "VCPU", Used: 3, Capacity: 8}}) {
		t.Errorf("%+v %v", hosts, err)
	}
	var one api.Host
	decode(t, w.want(200, "GET", "/berth/v1/hosts/cmp2", ""), &one)
	if !reflect.DeepEqual(one.HostRow, hosts[1]) || !reflect.DeepEqual(one.Devices, devices) {
		t.Errorf("%+v", one)
	}
	var row api.Devices
	decode(t, w.want(200, "GET", "/berth/v1/hosts/cmp2/devices/NIC%20Switch%20agent:eth1", ""), &row)
	if !reflect.DeepEqual(row.Devices, devices[3:]) {
		t.Errorf("%+v", row)
	}
}

func decode(t *testing.T, text string, into any) {
	t.Helper()
	if err := json.Unmarshal([]byte(text), into); err != nil {
		t.Fatalf("%s: %v", text, err)
	}
}

// What does not exist is 404, and a parameter is refused: the lists have none.
func TestHostsAndDevicesThatAreRefused(t *testing.T) {
	w := newWorld(t)
	deviceCloud(t, w)
	for path, status := range map[string]int{
		"/berth/v1/hosts/nfs":                           404,
		"/berth/v1/hosts/cmp3":                          404,
		"/berth/v1/hosts/cmp2_NUMA0":                    404,
		"/berth/v1/hosts/cmp2/devices/0000:99:00.0":     404,
		"/berth/v1/hosts/cmp2/devices/NIC Switch agent": 404, // it has no inventory
		"/berth/v1/hosts/cmp2?limit=1":                  400,
		"/berth/v1/hosts?host=cmp2":                     400,
		"/berth/v1/devices?host=cmp2":                   400,
	} {
		w.want(status, "GET", strings.ReplaceAll(path, " ", "%20"), "")
	}
	if text := w.want(200, "GET", "/berth/v1/hosts/cmp1", ""); !strings.Contains(text, `"devices":[]`) {
		t.Error(text)
	}
}

// An empty Placement has empty lists, not null.
func TestNoHosts(t *testing.T) {
	w := newWorld(t)
	if text := w.want(200, "GET", "/berth/v1/devices", ""); text != `{"devices":[]}` {
		t.Error(text)
	}
	if text := w.want(200, "GET", "/berth/v1/hosts", ""); text != `{"hosts":[]}` {
		t.Error(text)
	}
}

// manyDevices returns the rows of hosts with devices.
func manyDevices(hosts, devices int) (rows []index.Row) {
	for h := range hosts {
		root := index.Row{Provider: provider.Provider{ID: provider.ID(fmt.Sprintf("r%05d", h)),
			Name: fmt.Sprintf("cmp%05d", h)}}
		root.Root = root.ID
		rows = append(rows, root)
		for d := range devices {
			row := index.Row{Provider: provider.Provider{ID: provider.ID(fmt.Sprintf("d%05d-%02d", h, d)),
				Name: fmt.Sprintf("%s_0000:%02x:00.0", root.Name, d), Parent: root.ID, Root: root.ID,
				Traits: []resource.Trait{"CUSTOM_A", "CUSTOM_B", "COMPUTE_MANAGED_PCI_DEVICE"}}}
			row.Inventories = map[resource.Class]resource.Inventory{"CUSTOM_GPU": resource.Whole(1)}
			rows = append(rows, row)
		}
	}
	return rows
}

// A long list is sent in chunks while its client reads, and changes of Placement do not wait for that client.
func TestLongListsOfDevices(t *testing.T) {
	w := newWorld(t)
	const hosts, devices = 1500, 26
	show(w.server, manyDevices(hosts, devices))
	server := httptest.NewServer(w.server)
	t.Cleanup(server.Close)
	req, err := http.NewRequestWithContext(t.Context(), "GET", server.URL+"/berth/v1/devices", nil)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("X-Auth-Token", "admin")
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	first := make([]byte, 10)
	if _, err := io.ReadFull(resp.Body, first); err != nil {
		t.Fatal(err)
	}
	w.must("1.39", "POST", "/resource_providers", `{"name":"new"}`)
	rest, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	var all api.Devices
	decode(t, string(first)+string(rest), &all)
	if len(rest) < 10<<20 || len(all.Devices) != hosts*devices || all.Devices[1].Address != "0000:01:00.0" ||
		all.Devices[devices].Host != "cmp00001" {
		t.Errorf("%d bytes, %d devices, %+v", len(rest), len(all.Devices), all.Devices[:2])
	}
}

// An answer that breaks off, and one of another program, are errors.
func TestListsThatBreakOff(t *testing.T) {
	for body, kind := range map[string]fault.Kind{
		`{"devices":[{"host":"a"},`: fault.Unavailable, `{"devices":[`: fault.Unavailable, ``: fault.Unavailable,
		`[]`: fault.Unavailable, `{"devices":[]}`: "", `{"devices":[{"host":1}]}`: fault.Unavailable} {
		server := httptest.NewServer(http.HandlerFunc(func(out http.ResponseWriter, _ *http.Request) {
			_, _ = out.Write([]byte(body)) // the client may be gone
		}))
		list, err := api.NewClient(server.URL, nil, "t").Devices(t.Context())
		if server.Close(); kind == "" && (err != nil || list == nil) || kind != "" && !fault.Is(err, kind) {
			t.Errorf("%s: %v %v", body, list, err)
		}
	}
}
