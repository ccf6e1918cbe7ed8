package main

import (
	"context"
	"fmt"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/openberth/berth/internal/novalink"
	"github.com/openberth/berth/internal/testenv"
)

// The sh blocks of the guide for PowerVM work, in order, on a fake of NovaLink.
func TestPowerVMGuide(t *testing.T) {
	testenv.Long(t)
	t.Parallel()
	dir, bin := t.TempDir(), t.TempDir()
	server := httptest.NewServer(novalink.New(novalink.Options{TokenDir: dir}, demoSystem()))
	t.Cleanup(server.Close)
	script := "set -eux\n"
	locked := "[oslo_concurrency]\nlock_path = " + dir + "\n\n[powervm]\n" // the host is that of other runs, too
	for _, block := range regexp.MustCompile("(?s)```sh\n(.*?)```").FindAllStringSubmatch(read(t, "docs/powervm.md"), -1) {
		script += strings.ReplaceAll(block[1], "[powervm]\n", locked)
	}
	if strings.Count(script, "berth ") < 12 || strings.Count(script, dir) != 1 {
		t.Fatal("the guide has fewer than 12 commands, or their form has changed")
	}
	if err := os.Symlink(program(t), filepath.Join(bin, "berth")); err != nil {
		t.Fatal(err)
	}
	placement, compute := testenv.FreeAddress(t), testenv.FreeAddress(t)
	ctx, cancel := context.WithTimeout(t.Context(), 2*testenv.Patience) // so that the output shows where it waits
	defer cancel()
	cmd := exec.CommandContext(ctx, "sh", "-c", script)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "PATH="+bin+":"+os.Getenv("PATH"), "NOVALINK="+server.URL,
		"BERTH_LISTEN_PLACEMENT="+placement, "BERTH_LISTEN_COMPUTE="+compute, "BERTH_LISTEN_NETWORK=127.0.0.1:0",
		"BERTH_LISTEN_IMAGE=127.0.0.1:0",
		"BERTH_PLACEMENT_URL=http://"+placement, "BERTH_COMPUTE_URL=http://"+compute)
	cmd.WaitDelay = 10 * time.Second
	out, err := cmd.CombinedOutput()
	text := string(out)
	if err != nil {
		t.Fatalf("%v\n%s\n%s", err, text, read(t, filepath.Join(dir, "up.log")))
	}
	for _, want := range []string{"slot 21010012:", "1 of them offered; 0 errors, 0 warnings",
		"not offered, because paragraph \"but not the one of the console\"", "PowerVM IOSlot power1 21010010",
		"write trait1:CUSTOM_FAST", "has the physical I/O slots 21010010",
		"ACTIVE  power1  gpu     21010010"} {
		if !strings.Contains(text, want) {
			t.Errorf("no %q in the output of the guide's commands:\n%s", want, text)
		}
	}
}

// The guide decides every extension of the specification, and a rejection has a reason.
func TestGuideDecidesEveryExtension_G6_G8_G9(t *testing.T) {
	t.Parallel()
	guide := read(t, "docs/powervm.md")
	for n := 1; n <= 9; n++ {
		row := regexp.MustCompile(fmt.Sprintf(`(?m)^\| G%d [^|]*\| (done|rejected)(.*)\|$`, n)).FindStringSubmatch(guide)
		if row == nil || row[1] == "rejected" && len(strings.Fields(row[2])) < 8 {
			t.Errorf("G%d: %q", n, row)
		}
	}
}

// Each rule R1 to R55, each reading C1 to C29, each extension G1 to G9 and each fact of the page has a row and a test,
// and the test exists.
func TestEveryRowOfPowerVMHasATest(t *testing.T) {
	t.Parallel()
	const page = "docs/behaviour/powervm-ioslots.md"
	tested := testedRows(t, page)
	rows, _, _ := strings.Cut(read(t, page), "\n## Tests\n")
	described := map[string]bool{}
	for _, cells := range regexp.MustCompile(`(?m)^\| ([A-Z][0-9A-Z, –]+) \|`).FindAllStringSubmatch(rows, -1) {
		for name := range strings.SplitSeq(cells[1], ", ") {
			for _, one := range rangeOfRows(t, name) {
				described[one] = true
				if !tested[one] {
					t.Errorf("%s has no test", one)
				}
			}
		}
	}
	for prefix, last := range map[string]int{"R": 55, "C": 29, "G": 9} {
		for n := 1; n <= last; n++ {
			if name := fmt.Sprint(prefix, n); !described[name] {
				t.Errorf("%s has no row", name)
			}
		}
	}
}

// rangeOfRows returns the rows that a cell such as R30–R37 names.
func rangeOfRows(t *testing.T, cell string) (list []string) {
	t.Helper()
	first, last, ok := strings.Cut(cell, "–")
	if !ok {
		return []string{cell}
	}
	from, err := strconv.Atoi(first[1:])
	must(t, err)
	to, err := strconv.Atoi(last[1:])
	must(t, err)
	for n := from; n <= to; n++ {
		list = append(list, fmt.Sprint(first[:1], n))
	}
	return list
}
