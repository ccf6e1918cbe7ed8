package main

import (
	"strings"
	"testing"

	"github.com/openberth/berth/api/compute"
	"github.com/openberth/berth/internal/browser"
	"github.com/openberth/berth/internal/libvirtd"
	"github.com/openberth/berth/internal/testenv"
)

// TestBrowserConsoles opens the display and the serial console of a guest in Chromium, with the URLs that the guide's
// commands print: the picture arrives, and what is typed reaches the guest. A URL works once.
func TestBrowserConsoles(t *testing.T) {
	t.Parallel()
	testenv.Need(t, "chromium", "novnc", "node-xterm", "the openstack client")
	virt := libvirtd.Start(t)
	dir := t.TempDir()
	images := start(t, []string{"image"}, "image", "--config-file", machineless(t, dir), "--data-dir", dir+"/images",
		"--listen", "127.0.0.1:0")
	glance := "\n[glance]\nendpoint_override = " + images.urls["image"] + "\n"
	f := newFleet(t, aliases+pciInPlacement+glance)
	l := &libvirtHost{fleet: f, virt: virt, instances: virt.GuestDir(t)}
	l.more = glance
	f.startAgent("cmp1", l.conf())
	disk := dir + "/echo.img"
	writeFile(t, disk, string(libvirtd.EchoSector()))
	image := addImage(t, disk, images.urls["image"])
	c := f.compute.compute()
	flavor, err := c.CreateFlavor(t.Context(), compute.CreateFlavor{Name: "small", VCPUs: 1, RAM: 64, Disk: 1})
	must(t, err)
	s, err := c.CreateServer(t.Context(), compute.CreateServer{Name: "web", Flavor: flavor.ID, Image: image})
	must(t, err)
	l.awaitConsole(s.ID, "ready>")
	var commands [][]string
	for line := range strings.Lines(guideBlocks(t, "browser")[0]) {
		if words := strings.Fields(line); !requireInstalled(t, words) {
			commands = append(commands, append(words[1:], "-c", "url", "-f", "value"))
		}
	}
	account := login{"OS_AUTH_TYPE=admin_token", "OS_TOKEN=admin", "OS_ENDPOINT=" + f.compute.urls["compute"] + "/v2.1"}
	display, serial := account.openstack(t, commands[0]...), account.openstack(t, commands[1]...)
	b := browser.Start(t)

	b.Open(strings.TrimSpace(display))
	b.Await("the picture of the guest", `(() => { const c = document.querySelector("canvas");
		return c !== null && c.width >= 640 && c.getContext("2d").getImageData(0, 0, c.width, c.height).data
			.some((v, i) => i % 4 !== 3 && v > 0); })()`)
	b.Evaluate(`document.querySelector("canvas").focus()`)
	b.Type("picture")
	l.awaitConsole(s.ID, "picture")
	b.Open(strings.TrimSpace(display))
	b.Await("a used URL is refused", `/disconnected|went wrong|closed/i.test(document.body.innerText)`)

	b.Open(strings.TrimSpace(serial))
	b.Await("the serial console is open", `document.getElementById("state").textContent === "Connected"`)
	b.Type("serial")
	l.awaitConsole(s.ID, "pictureserial")
	b.Await("the guest's echo", `terminal.selectAll(), terminal.getSelection().includes("serial")`)
	f.delete(compute.Server{ID: s.ID})
	b.Await("the console ends with the guest", `document.getElementById("state").textContent.startsWith("Closed")`)
}
