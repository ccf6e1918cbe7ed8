//go:build nested

package vfguest

import (
	"bytes"
	"io"
	"os"
	"os/exec"
	"strings"
	"testing"
)

// TestNestedChapter runs the commands of the guide's chapter on guests of libvirt. They end with a shell in a guest
// that finds the VF by its ids: the guest's QEMU cannot emulate such a device. Afterwards the VF has its driver again.
func TestNestedChapter(t *testing.T) {
	m := &machine{t: t}
	m.phase("the lab has booted")
	m.mountFiles()
	virt := newLibvirtd(m)
	m.phase("libvirtd answers")
	script, err := os.ReadFile("chapter.sh")
	must(t, err)
	cmd := exec.Command("sh", "-c", string(script))
	cmd.Dir = t.TempDir()
	cmd.Env = append(os.Environ(), "PATH=/payload:"+os.Getenv("PATH"))
	var out bytes.Buffer
	cmd.Stdout = io.MultiWriter(os.Stdout, &out) // the lab may end before the commands
	cmd.Stderr = cmd.Stdout
	err = cmd.Run()
	m.phase("the commands of the chapter have ended")
	if err != nil {
		log, _ := os.ReadFile(cmd.Dir + "/cloud.log") // without it the services have not started
		t.Fatalf("the commands of the chapter: %v\n%s", err, last(log, 40))
	}
	for _, want := range []string{"1 of them reported; 0 errors, 0 warnings", "ACTIVE", "web# cd /sys"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("no %q in the output of the commands", want)
		}
	}
	if name := driver(first); name != "igbvf" {
		t.Errorf("%s has the driver %q after the delete of the server", first, name)
	}
	if n := virt.domains(); n != 0 {
		t.Errorf("libvirt has %d domains", n)
	}
}
