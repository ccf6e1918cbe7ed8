package main

import (
	"fmt"
	"maps"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"github.com/openberth/berth/api/compute"
	"github.com/openberth/berth/fault"
	"github.com/openberth/berth/internal/novalink"
	"github.com/openberth/berth/internal/testenv"
)

// powerVMFleet is a cloud of processes with a PowerVM host of four GPUs.
type powerVMFleet struct {
	*fleet
	novalink *novalink.Server
	config   string
}

func newPowerVMFleet(t *testing.T) *powerVMFleet {
	f := &powerVMFleet{fleet: newFleet(t, "[DEFAULT]\nallow_resize_to_same_host = true\n")}
	system := &novalink.System{UUID: "11111111-2222-3333-4444-555555555555", Name: "sys1", Owner: true}
	for i := range 4 {
		system.Slots = append(system.Slots, novalink.GPU(uint32(0x21010010+i), fmt.Sprintf("U1-P1-C%d", i+1)))
	}
	f.novalink = novalink.New(novalink.Options{TokenDir: t.TempDir()}, system)
	server := httptest.NewServer(f.novalink)
	t.Cleanup(server.Close)
	writeFile(t, f.path("inventory.yaml"), "gpus: {identification: {vendor_id: 10DE}, resource_class: CUSTOM_GPU}\n")
	f.config = f.file("cmp1", fmt.Sprintf("[DEFAULT]\nhost = cmp1\ncompute_driver = powervm.PowerVMDriver\n"+
		"[oslo_concurrency]\nlock_path = %s\n[berth]\nrescan_interval = 1\n[powervm]\nurl = %s\ninventory_files = %s\n",
		f.path("locks"), server.URL, f.path("inventory.yaml")))
	f.startAgent("cmp1", f.config)
	return f
}

// gpus returns the id of a flavor with n GPUs.
func (f *powerVMFleet) gpus(n int) string {
	f.t.Helper()
	c := f.compute.compute()
	flavor, err := c.CreateFlavor(f.t.Context(), compute.CreateFlavor{Name: fmt.Sprint(n, " GPUs"), VCPUs: 1, RAM: 64})
	specs := map[string]string{"group_policy": "isolate"}
	for i := range n {
		specs[fmt.Sprintf("resources%d:CUSTOM_GPU", i+1)] = "1"
	}
	if err == nil {
		err = c.SetExtraSpecs(f.t.Context(), flavor.ID, specs)
	}
	must(f.t, err)
	return flavor.ID
}

// slots returns the DRC indices of the slots that partitions have, sorted.
func (f *powerVMFleet) slots() (list []string) {
	f.novalink.Change(func(_ *novalink.Options, systems []*novalink.System) {
		for _, index := range slices.Sorted(maps.Keys(systems[0].Owners())) {
			list = append(list, fmt.Sprintf("%08X", index))
		}
	})
	return list
}

// killed performs an action while the agent is killed at the first request that the fault describes, starts the agent
// again, and waits until the server has a status and partitions have a number of slots; "" is a deleted server.
func (f *powerVMFleet) killed(at novalink.Fault, act func() error, id *string, status string, slots int) {
	f.t.Helper()
	what := fmt.Sprintf("killed at %s %s, after %v", at.Method, at.Path, at.After)
	agent, dead := f.agents["cmp1"], make(chan struct{})
	at.Do = func() { agent.kill(); close(dead) }
	f.novalink.Inject(at)
	must(f.t, act())
	testenv.Until(f.t, what, func() (bool, error) {
		select {
		case <-dead:
			return true, nil
		default:
			return false, fmt.Errorf("requests %v", f.novalink.Requests())
		}
	})
	delete(f.agents, "cmp1")
	f.startAgent("cmp1", f.config)
	testenv.Until(f.t, fmt.Sprintf("%s: status %q with %d slots", what, status, slots), func() (bool, error) {
		s, err := f.compute.compute().Server(f.t.Context(), *id)
		settled := s.Status == status && s.TaskState == nil
		if status == "" {
			settled, err = fault.Is(err, fault.NotFound), nil
		}
		got := f.slots()
		return settled && len(got) == slots, fmt.Errorf("%s %v: %v", s.Status, got, err)
	})
	if status == "" {
		return
	}
	testenv.Until(f.t, what+": the partition has the slots of the allocation", func() (bool, error) {
		held := f.allocation(compute.Server{ID: *id})
		for _, index := range strings.Fields(f.devices(compute.Server{ID: *id})) {
			if !strings.Contains(held, index+" CUSTOM_GPU:1") {
				return false, fmt.Errorf("%s is not in %s", index, held)
			}
		}
		return status == "VERIFY_RESIZE" || strings.Count(held, "CUSTOM_GPU") == slots, fmt.Errorf("%s", held)
	})
}

// The agent is killed with SIGKILL at each request to NovaLink that has an effect, before the server performs it and
// after. After the restart each action ends as without the kill: every slot has one partition, every partition has its
// slots, and a deleted server leaves none.
func TestAgentKilledAtEachRequestToNovaLink(t *testing.T) {
	testenv.Long(t)
	t.Parallel()
	f := newPowerVMFleet(t)
	one, two, c := f.gpus(1), f.gpus(2), f.compute.compute()
	var id string
	create := func() error {
		made, err := c.CreateServer(t.Context(), compute.CreateServer{Name: "a", Flavor: one})
		id = made.ID
		return err
	}
	act := func(action string, args map[string]any) func() error {
		return func() error { return c.Act(t.Context(), id, action, args) }
	}
	remove := func() error { return c.DeleteServer(t.Context(), id) }
	rebuild := act("rebuild", map[string]any{"imageRef": ""})
	const partition, made = "/uom/LogicalPartition/", "/LogicalPartition"
	for _, after := range []bool{false, true} {
		for _, step := range []struct {
			method, path string
			act          func() error
			status       string
			slots        int
		}{
			{"PUT", made, create, "ACTIVE", 1}, {"DELETE", partition, remove, "", 0},
			{"PUT", "/do/PowerOn", create, "ACTIVE", 1}, {"PUT", "/do/PowerOff", act("os-stop", nil), "SHUTOFF", 1},
			{"PUT", "/do/PowerOn", act("os-start", nil), "ACTIVE", 1}, {"PUT", "/do/PowerOff", rebuild, "ACTIVE", 1},
			{"POST", partition, rebuild, "ACTIVE", 1}, {"PUT", "/do/PowerOn", rebuild, "ACTIVE", 1},
			{"PUT", made, act("resize", map[string]any{"flavorRef": two}), "VERIFY_RESIZE", 3},
			{"DELETE", partition, act("confirmResize", nil), "ACTIVE", 2},
			{"PUT", "/web/Logon", func() error { f.novalink.EndSessions(); return nil }, "ACTIVE", 2},
			{"PUT", "/do/PowerOff", remove, "", 0}, {"DELETE", "/uom/jobs/", create, "ACTIVE", 1},
			{"DELETE", "/uom/jobs/", remove, "", 0},
		} {
			f.killed(novalink.Fault{Method: step.method, Path: step.path, After: after}, step.act, &id, step.status, step.slots)
		}
	}
}
