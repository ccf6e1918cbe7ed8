package main

import (
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/openberth/berth/api/compute"
	"github.com/openberth/berth/internal/testenv"
)

// After the journal of a running agent or its lock is deleted, or the journal is replaced, the agent builds no guest
// and ends with the remedy. A new file is not changed. After the remedy the agent continues with the guests it has.
func TestJournalLost(t *testing.T) {
	testenv.Long(t)
	t.Parallel()
	for _, c := range []struct {
		name, file, message string
		lose                func(t *testing.T, path, replacement string)
	}{
		{"deleted", "journal", fileLosses()[0].message, fileLosses()[0].lose},
		{"replaced", "journal", fileLosses()[1].message, fileLosses()[1].lose},
		{"lock deleted", "lock", fileLosses()[0].message, fileLosses()[0].lose},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir := t.TempDir()
			path, data := conf(t, machine(t, 1, 4)), filepath.Join(dir, "host")
			p := start(t, []string{"placement"}, "placement", "--config-file", path, "--data-dir", dir, "--listen",
				"127.0.0.1:0")
			cloud := start(t, []string{"compute"}, "compute", "--config-file", path, "--data-dir", dir, "--listen",
				"127.0.0.1:0", "--placement-url", p.urls["placement"])
			agent := func() *daemon {
				return start(t, nil, "agent", "--config-file", path, "--data-dir", data, "--placement-url", p.urls["placement"],
					"--compute-url", cloud.urls["compute"])
			}
			a := agent()
			flavor, err := cloud.compute().CreateFlavor(t.Context(), compute.CreateFlavor{Name: "f", VCPUs: 1, RAM: 64})
			must(t, err)
			must(t, cloud.compute().SetExtraSpecs(t.Context(), flavor.ID, map[string]string{"pci_passthrough:alias": "vf:1"}))
			testenv.Until(t, "the agent has reported", func() (bool, error) {
				list, err := cloud.hosts().Devices(t.Context())
				return len(list) == 4, err
			})
			first := cloud.server(t, "first", flavor.ID)
			cloud.untilActive(t, first)

			lost, replacement := filepath.Join(data, "agent", c.file), filepath.Join(dir, "backup")
			before := contents(t, lost)
			must(t, os.WriteFile(replacement, before, 0o600))
			c.lose(t, lost, replacement)
			second := cloud.server(t, "second", flavor.ID)
			a.wantFailure(t, lost, c.message, "start the agent again")
			if got := guests(t, data); !slices.Equal(got, []string{first}) {
				t.Errorf("guests after the loss: %v, want only %s", got, first)
			}
			switch saved, err := filepath.Glob(lost + ".saved-*"); {
			case err != nil || (c.file == "journal") != (len(saved) == 1):
				t.Fatalf("saved: %v %v", saved, err)
			case c.name == "replaced":
				if !bytes.Equal(contents(t, lost), before) {
					t.Error("the new journal was changed")
				}
			case c.name == "deleted":
				again := agent()
				again.wantFailure(t, saved[0], "rename it to "+lost)
				must(t, os.Rename(saved[0], lost))
			}
			again := agent()
			cloud.untilActive(t, second)
			if want := []string{first, second}; !slices.Equal(guests(t, data), slices.Sorted(slices.Values(want))) {
				t.Errorf("guests after the restart: %v, want %v", guests(t, data), want)
			}
			if strings.Contains(again.log.String(), "level=ERROR") {
				t.Errorf("the agent after the restart:\n%s", again.log)
			}
			again.stop(t)
		})
	}
}

// In `berth up` the whole process ends when its agent does.
func TestJournalLostInUp(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	d := up(t, conf(t, machine(t, 1, 1)), dir)
	path := filepath.Join(dir, "agent", "journal")
	must(t, os.Remove(path))
	d.wantFailure(t, path, "was deleted or moved", "start the agent again")
}

// server creates a server and returns its id.
func (d *daemon) server(t *testing.T, name, flavor string) string {
	t.Helper()
	s, err := d.compute().CreateServer(t.Context(), compute.CreateServer{Name: name, Flavor: flavor})
	must(t, err)
	return s.ID
}

func (d *daemon) untilActive(t *testing.T, id string) {
	t.Helper()
	testenv.Until(t, "the server "+id+" is ACTIVE", func() (bool, error) {
		s, err := d.compute().Server(t.Context(), id)
		return s.Status == "ACTIVE", err
	})
}

// guests returns the ids of the servers with a guest in the fake hypervisor, sorted.
func guests(t *testing.T, data string) (list []string) {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(data, "agent", "guests", "*.json"))
	must(t, err)
	for _, f := range files {
		list = append(list, strings.TrimSuffix(filepath.Base(f), ".json"))
	}
	return list
}
