//go:build pictures

package main

import (
	"bytes"
	"flag"
	"fmt"
	"image/png"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/openberth/berth/internal/browser"
	"github.com/openberth/berth/internal/testenv"
)

var picturesTo = flag.String("pictures", "", "directory to which TestPictures writes the pictures of the documents")

// The pictures of the documents show the console of `berth demo --stay` on the captured machine in the binary, with the
// servers that the tour leaves.
func TestPictures(t *testing.T) {
	testenv.Need(t, "chromium")
	cmd := berth(t, "demo", "--stay", "--sysfs", "../../agent/sysfs/sample.txtar", "--listen-console", "127.0.0.1:0",
		"--listen-placement", "127.0.0.1:0", "--listen-compute", "127.0.0.1:0", "--listen-network", "127.0.0.1:0",
		"--listen-image", "127.0.0.1:0")
	var out testenv.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	must(t, cmd.Start())
	t.Cleanup(func() { interrupt(t, cmd.Process, syscall.SIGTERM); must(t, cmd.Wait()) })
	console := ""
	testenv.Until(t, "the console is served", func() (bool, error) {
		console = addressIn(out.String(), "console")
		return console != "", nil
	})
	b := browser.Start(t)
	b.Open(console + "/sign-in?next=/fleet")
	b.Evaluate(`document.getElementById("token").value = "admin"; document.forms[0].requestSubmit()`)
	b.Await("the fleet", `document.readyState === "complete" && !!document.querySelector("[data-row]")`)
	b.Call("Emulation.setScrollbarsHidden", map[string]any{"hidden": true}, nil)
	for _, p := range []struct {
		file, list, link, shows string
		dark                    bool
	}{
		{"console-host.png", "/fleet", "[data-row] a", `[id^="d-0000:"]`, false},
		{"console-server.png", "/servers", "main table a", "main h2", true},
	} {
		b.Size(1280, 400)
		b.Dark(p.dark)
		b.Open(console + p.list)
		b.Await(p.list, fmt.Sprintf(`document.readyState === "complete" && !!document.querySelector(%q)`, p.link))
		b.Evaluate(fmt.Sprintf(`document.querySelector(%q).click()`, p.link))
		b.Await(p.file, fmt.Sprintf(`document.readyState === "complete" && !!document.querySelector(%q)`, p.shows))
		height := int(b.Evaluate(`Math.ceil(document.querySelector("main").getBoundingClientRect().bottom)`).(float64))
		b.Size(1280, height)
		picture := b.Picture()
		made, err := png.Decode(bytes.NewReader(picture))
		must(t, err)
		if size := made.Bounds().Size(); size.X != 1280 || size.Y != height || height < 400 {
			t.Errorf("%s has the size %v", p.file, size)
		}
		if *picturesTo != "" {
			must(t, os.WriteFile(filepath.Join(*picturesTo, p.file), picture, 0o644))
		}
	}
	if len(b.Complaints) > 0 {
		t.Errorf("the browser complains: %v", b.Complaints)
	}
}
