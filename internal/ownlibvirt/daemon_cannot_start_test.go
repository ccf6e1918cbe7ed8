package ownlibvirt

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/openberth/berth/fault"
	"github.com/openberth/berth/internal/testenv"
)

// A daemon that cannot start is an error with the reason, not a wait without end: what prepares its namespaces fails,
// or the program ends as soon as it is started.
func TestDaemonThatCannotStart(t *testing.T) {
	testenv.Need(t, "libvirtd", "unshare", "ip")
	bin := t.TempDir()
	if err := os.WriteFile(filepath.Join(bin, "libvirtd"), []byte("#!/bin/sh\necho no such option\nexit 6\n"),
		0o700); err != nil {
		t.Fatal(err)
	}
	for name, prepare := range map[string]string{
		"cannot find the directory": `echo cannot find the directory; exit 3`,
		"no such option":            "PATH=" + bin + ":$PATH",
	} {
		t.Run(name, func(t *testing.T) {
			dir, err := os.MkdirTemp("/tmp", "own-")
			if err != nil {
				t.Fatal(err)
			}
			defer os.RemoveAll(dir)
			var output bytes.Buffer
			d, err := Start(Options{Dir: dir, Prepare: prepare, Output: &output})
			if err != nil {
				t.Fatal(err)
			}
			ctx, cancel := context.WithTimeout(t.Context(), testenv.Patience)
			defer cancel()
			err = d.Await(ctx)
			d.Close()
			if !fault.Is(err, fault.Unavailable) || !strings.Contains(err.Error(), "cannot be started") || ctx.Err() != nil {
				t.Errorf("%v (%v)", err, ctx.Err())
			}
			if !strings.Contains(output.String(), name) {
				t.Errorf("the output lacks the reason: %s", &output)
			}
		})
	}
}
