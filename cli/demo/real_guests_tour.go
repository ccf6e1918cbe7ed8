package demo

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"regexp"
	"strings"
	"time"

	"github.com/openberth/berth/api/compute"
	"github.com/openberth/berth/api/image"
	"github.com/openberth/berth/backoff"
	"github.com/openberth/berth/fault"
	"github.com/openberth/berth/pci"
)

// RealGuests is what the tour of real guests needs beside the cloud.
type RealGuests struct {
	Images image.Catalogue
	Disk   string      // a file with a raw disk image that prints its host name and Ready to its console
	Ready  string      // what a guest prints when it has started
	Device *pci.Device // of this machine, which the cloud offers as Alias; nil: it has none to give
}

// ConfigReal returns the configuration of the tour of real guests: a host whose driver is libvirt, with a socket, that
// stores its guests in a directory. It offers the device, if there is one. QEMU emulates the CPU, because some virtual
// machines have a KVM that ends guests: the tour must succeed everywhere.
func ConfigReal(hostname, socket, instances string, d *pci.Device) string {
	var b strings.Builder
	fmt.Fprintf(&b, "[DEFAULT]\nhost = %s\ncompute_driver = libvirt.LibvirtDriver\ninstances_path = %s\n"+
		"shutdown_timeout = 0\n\n[libvirt]\nconnection_uri = qemu+unix:///system?socket=%s\n"+
		"virt_type = qemu\n\n[api]\nauth_strategy = noauth2\n", hostname, instances, socket)
	if d != nil {
		fmt.Fprintf(&b, "\n[pci]\nreport_in_placement = true\ndevice_spec = %s\nalias = %s\n\n[filter_scheduler]\n"+
			"pci_in_placement = true\n", oneLine(map[string]string{"address": d.Address.String(),
			"resource_class": string(Class)}), oneLine(map[string]string{"name": Alias, "resource_class": string(Class)}))
	}
	return b.String()
}

// realTour is one run of the tour of real guests.
type realTour struct {
	*tour
	RealGuests
	image   string
	flavors [2]string // for each server
	servers []compute.Server
}

// RunRealGuests runs the tour of two real guests and prints it to out.
func RunRealGuests(ctx context.Context, out io.Writer, c Cloud, r RealGuests) error {
	t := &realTour{tour: &tour{Cloud: c, ctx: ctx, out: out}, RealGuests: r}
	for _, step := range []func() error{t.upload, t.flavor, t.boot, t.consoles, t.remove} {
		if err := step(); err != nil {
			return err
		}
	}
	return nil
}

// upload creates the image of the guests.
func (t *realTour) upload() error {
	t.title("The disk image becomes an image of the image service.")
	made, err := t.Images.Create(t.ctx, map[string]any{"name": "small-linux", "disk_format": "raw",
		"container_format": "bare"})
	if err != nil {
		return err
	}
	file, err := os.Open(t.Disk)
	if err != nil {
		return fail("the disk image cannot be read: %v", err)
	}
	defer file.Close()
	status, err := file.Stat()
	if err != nil {
		return fail("the disk image cannot be read: %v", err)
	}
	if err := t.Images.Upload(t.ctx, made.ID, file, 0, status.Size()); err != nil {
		return err
	}
	t.image = made.ID
	t.say("image small-linux: %d MiB", status.Size()>>20)
	return nil
}

// flavor creates the flavors: the second server requests the device, if the machine has one to give.
func (t *realTour) flavor() error {
	t.title("A flavor describes the guests.")
	plain, err := t.Compute.CreateFlavor(t.ctx, compute.CreateFlavor{Name: "small", VCPUs: 1, RAM: 256, Disk: 1})
	if err != nil {
		return err
	}
	t.flavors = [2]string{plain.ID, plain.ID}
	t.say("flavor small: 1 VCPU, 256 MiB, a disk of 1 GiB")
	if t.Device == nil {
		t.say("This machine has no PCI device to give to a guest: none with an IOMMU group and without a driver.")
		return nil
	}
	with, err := t.Compute.CreateFlavor(t.ctx, compute.CreateFlavor{Name: flavorName, VCPUs: 1, RAM: 256, Disk: 1})
	if err != nil {
		return err
	}
	t.flavors[1] = with.ID
	t.say("flavor %s: the same with pci_passthrough:alias=%s:1; the host offers %s", flavorName, Alias, t.Device.Address)
	return t.Compute.SetExtraSpecs(t.ctx, with.ID, map[string]string{"pci_passthrough:alias": Alias + ":1"})
}

// boot creates the servers and waits until both guests run.
func (t *realTour) boot() error {
	t.title("Two servers are created; libvirt starts a guest of QEMU for each.")
	for n, flavor := range t.flavors {
		made, err := t.Compute.CreateServer(t.ctx, compute.CreateServer{Name: fmt.Sprintf("guest-%d", n+1), Flavor: flavor,
			Image: t.image})
		if err != nil {
			return err
		}
		t.servers = append(t.servers, compute.Server{ID: made.ID, Name: fmt.Sprintf("guest-%d", n+1)})
	}
	for _, s := range t.servers {
		began := time.Now()
		done, err := t.settled(s.ID)
		if err != nil {
			return err
		}
		t.say("%s is %s (waited %.1f s)", s.Name, done.Status, time.Since(began).Seconds())
		if done.Status != "ACTIVE" {
			return fail("%s should be ACTIVE, but is %s: %s", s.Name, done.Status, faultText(done))
		}
	}
	return nil
}

// consoles waits until each guest has started, and prints the last lines of its console.
func (t *realTour) consoles() error {
	for n, s := range t.servers {
		t.title("The last lines of the serial console of %s.", s.Name)
		text, err := t.console(s.ID)
		if err != nil {
			return err
		}
		lines := guestLines(text)
		t.say("%s", strings.Join(lines, "\n"))
		want := []string{"host name " + s.Name}
		if n == 1 && t.Device != nil {
			want = append(want, "0x"+t.Device.Vendor+":0x"+t.Device.Product)
		}
		for _, w := range want {
			if !strings.Contains(text, w) {
				return fail("the console of %s should contain %q", s.Name, w)
			}
		}
	}
	return nil
}

// console returns what a guest has printed, when it has started.
func (t *realTour) console(id string) (text string, err error) {
	ctx, cancel := context.WithTimeout(t.ctx, stepTimeout)
	defer cancel()
	for {
		var out struct{ Output string }
		_, err := t.Compute.REST.Do(ctx, http.MethodPost, "/v2.1/servers/"+id+"/action",
			map[string]any{"os-getConsoleOutput": map[string]any{}}, &out)
		if err != nil && !fault.Is(err, fault.NotFound) {
			return "", err
		}
		if strings.Contains(out.Output, t.Ready) {
			return out.Output, nil
		}
		if backoff.Sleep(ctx, 500*time.Millisecond) != nil {
			return "", fail("timeout after %s: waited for %q on the console, which has\n%s", stepTimeout, t.Ready,
				strings.Join(guestLines(out.Output), "\n"))
		}
	}
}

// escapes matches the control sequences of a terminal.
var escapes = regexp.MustCompile("\x1b\\[[0-9;?]*[A-Za-z]")

// guestLines returns the last lines of a console, without control characters.
func guestLines(text string) []string {
	const last = 12
	var lines []string
	for line := range strings.Lines(escapes.ReplaceAllString(text, "")) {
		line = strings.TrimSpace(strings.Map(func(r rune) rune {
			if r < ' ' || r == 0x7f {
				return -1
			}
			return r
		}, line))
		if line != "" {
			lines = append(lines, line)
		}
	}
	return lines[max(0, len(lines)-last):]
}

// remove deletes the servers and the image.
func (t *realTour) remove() error {
	t.title("The servers are deleted.")
	for _, s := range t.servers {
		if err := t.Compute.DeleteServer(t.ctx, s.ID); err != nil {
			return err
		}
	}
	for _, s := range t.servers {
		if err := t.until("server "+s.Name+" to be gone", func() (bool, error) {
			_, err := t.Compute.Server(t.ctx, s.ID)
			if fault.Is(err, fault.NotFound) {
				return true, nil
			}
			return false, err
		}); err != nil {
			return err
		}
	}
	_, used, err := t.wholeTree()
	if err != nil {
		return err
	}
	devices, all := totals(used)
	t.say("Both guests are gone, and the usages in Placement are %d.", all)
	if all != 0 {
		return fail("usages should be zero, but %d devices and %d units in total are in use", devices, all)
	}
	return t.Images.Delete(t.ctx, t.image)
}
