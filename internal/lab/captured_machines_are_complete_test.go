package lab

import (
	"bytes"
	"os"
	"path"
	"strings"
	"testing"

	"golang.org/x/tools/txtar"
)

// machine is a captured part of /sys: files by path with their content, links by path with their target.
type machine struct {
	files map[string]string
	links map[string]string
}

// parse parses an archive in the format of testdata/capture/run.
func parse(t *testing.T, data []byte) machine {
	t.Helper()
	m := machine{map[string]string{}, map[string]string{}}
	for _, f := range txtar.Parse(data).Files {
		name, target, link := strings.Cut(f.Name, " -> ")
		_, twice := m.files[name]
		if _, linked := m.links[name]; twice || linked {
			t.Errorf("%s is captured twice", name)
		}
		switch {
		case !link:
			m.files[name] = strings.TrimSpace(string(f.Data))
		case len(f.Data) > 0:
			t.Errorf("%s is a link and has content %q", f.Name, f.Data)
		default:
			m.links[name] = target
		}
	}
	return m
}

// TestFixtures tests that the archives which other packages use as machines are complete, small, and contain no MAC
// address.
func TestFixtures(t *testing.T) {
	for name, devices := range map[string]int{"lab-machine-sysfs.txtar": 21, "virtio-machine-sysfs.txtar": 6} {
		t.Run(name, func(t *testing.T) {
			data, err := os.ReadFile("testdata/" + name)
			if err != nil {
				t.Fatal(err)
			}
			if len(data) > 60<<10 {
				t.Errorf("%d bytes: want at most 60 KB", len(data))
			}
			comment, _, _ := bytes.Cut(data, []byte("\n"))
			if !bytes.Contains(comment, []byte("Linux ")) {
				t.Errorf("comment %q has no kernel version", comment)
			}
			m, found := parse(t, data), 0
			for link, target := range m.links {
				dir, address := path.Split(link)
				if dir != "bus/pci/devices/" {
					continue
				}
				found++
				device := path.Join(dir, target)
				if path.Base(device) != address {
					t.Errorf("%s leads to %s", link, device)
				}
				for _, file := range []string{"vendor", "device", "class", "subsystem_vendor", "subsystem_device", "revision",
					"numa_node"} {
					if m.files[path.Join(device, file)] == "" {
						t.Errorf("%s has no %s", device, file)
					}
				}
			}
			if found != devices {
				t.Errorf("%d devices, want %d", found, devices)
			}
			for file, content := range m.files {
				if path.Base(file) == "address" && content != "00:00:00:00:00:00" {
					t.Errorf("%s contains a real MAC address", file)
				}
			}
			if m.files["devices/system/node/node0/cpulist"] == "" {
				t.Error("no CPUs of NUMA node 0")
			}
		})
	}
}
