package main

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/alecthomas/kong"

	"github.com/openberth/berth/internal/testenv"
)

const root = "../.."

// TestOperatorsGuide runs the sh blocks of the operator's guide in order in an empty directory. TestBackupAndRestore
// runs those on backups, TestLibvirtChapter those on libvirt.
func TestOperatorsGuide(t *testing.T) {
	testenv.Long(t)
	t.Parallel()
	text := strings.Replace(guide(t), backupChapter(t), "", 1)
	text = strings.Replace(text, guideChapter(t, "Guests of libvirt"), "", 1)
	dir := t.TempDir()
	script := "set -eux\n"
	for _, block := range regexp.MustCompile("(?s)```sh\n(.*?)```").FindAllStringSubmatch(text, -1) {
		script += block[1]
	}
	if strings.Count(script, "berth ") < 15 {
		t.Fatal("the guide has fewer than 15 commands, or their form has changed")
	}
	sample := read(t, "agent/sysfs/sample.txtar")
	if err := os.WriteFile(filepath.Join(dir, "machine.txtar"), []byte(sample), 0o600); err != nil {
		t.Fatal(err)
	}
	bin := t.TempDir()
	if err := os.Symlink(program(t), filepath.Join(bin, "berth")); err != nil {
		t.Fatal(err)
	}
	placement, compute, image := testenv.FreeAddress(t), testenv.FreeAddress(t), testenv.FreeAddress(t)
	ctx, cancel := context.WithTimeout(t.Context(), 2*testenv.Patience) // so that the output shows where it waits
	defer cancel()
	cmd := exec.CommandContext(ctx, "sh", "-c", script)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "PATH="+bin+":"+os.Getenv("PATH"),
		"BERTH_LISTEN_PLACEMENT="+placement, "BERTH_LISTEN_COMPUTE="+compute, "BERTH_LISTEN_NETWORK=127.0.0.1:0",
		"BERTH_LISTEN_IMAGE="+image, "BERTH_IMAGE_URL=http://"+image,
		"BERTH_PLACEMENT_URL=http://"+placement, "BERTH_COMPUTE_URL=http://"+compute)
	cmd.WaitDelay = 10 * time.Second
	out, err := cmd.CombinedOutput()
	text = string(out)
	if err != nil {
		again, _ := os.ReadFile(filepath.Join(dir, "again.log")) // it may not have come so far
		t.Fatalf("%v\n%s\n%s\n%s", err, text, read(t, filepath.Join(dir, "up.log")), again)
	}
	for _, want := range []string{"CUSTOM_NVME 1/4", "ACTIVE", "nothing to do", "CUSTOM_NVME",
		"8 of them reported; 0 errors, 0 warnings", "it would not start",
		"of its VFs: servers hold 0000:11:00.", "keep the VFs, of which 0000:11:00.", "CUSTOM_PCI_1B36_0010 1/4",
		"nothing prevents [filter_scheduler]", ":Open vSwitch agent:br-ex  under ", "refused without the CA"} {
		if !strings.Contains(text, want) {
			t.Errorf("no %q in the output of the guide's commands:\n%s", want, text)
		}
	}
}

// blockTests are the tests that run the blocks of the guide, by the words after "sh". Those without a word are those of
// TestOperatorsGuide, TestGuideOnFreshMachine, TestBackupAndRestore and TestLibvirtChapter.
var blockTests = map[string]string{"": "cmd/berth TestOperatorsGuide", "guide": "packaging TestGuideOnFreshMachine",
	"machine": "packaging TestThreeCommandsToSSH", "first": "packaging TestThreeCommandsToSSH",
	"then": "packaging TestThreeCommandsToSSH", "moves": "packaging TestThreeCommandsToSSH",
	"services": "packaging TestInstalledPackage", "openvswitch": "cmd/berth TestOpenStackClientStartsGuestOnOpenVSwitch",
	"routed": "cmd/berth TestLibvirtGuestOnRoutedNetwork", "ports": "cmd/berth TestPortsOfTheGuide",
	"quotas": "cmd/berth TestPortsOfTheGuide", "browser": "cmd/berth TestBrowserConsoles",
	"upgrade": "cmd/berth TestUpgradeCheck",
	"nova":    "internal/nova TestNovaGuide",
	"all":     "internal/machines TestFromOneMachineToThree", "controller": "internal/machines TestFromOneMachineToThree",
	"hosts": "internal/machines TestFromOneMachineToThree", "desk": "internal/machines TestFromOneMachineToThree"}

// Each block of the guide with commands is run by a test.
func TestEveryBlockOfTheGuideRuns(t *testing.T) {
	t.Parallel()
	used := map[string]bool{}
	for i, fence := range regexp.MustCompile("(?m)^```.*$").FindAllString(guide(t)+read(t, "docs/guide/README.md"), -1) {
		if i%2 == 1 {
			continue // the end of a block
		}
		kind, rest, _ := strings.Cut(strings.TrimPrefix(fence, "```"), " ")
		where, _, _ := strings.Cut(rest, " ")
		if kind == "ini" || kind == "yaml" {
			continue
		}
		used[where] = true
		if _, runs := blockTests[where]; kind != "sh" || !runs {
			t.Errorf("no test runs a block %q; add it to a test and to blockTests, or mark it as ini or yaml", fence)
		}
	}
	for where, test := range blockTests {
		pkg, name, _ := strings.Cut(test, " ")
		if !used[where] || !strings.Contains(testsOf(t, pkg), "\nfunc "+name) {
			t.Errorf("no block for %q, or no test %s", where, test)
		}
	}
}

// formBlocks are the beginnings of the indented blocks of the guide, with the reason why no test runs them as written.
// Blocks of sh in fences are for commands that run.
var formBlocks = map[string]string{
	"#!/bin/sh": "the text of a program of the operator", "driver: libvirt": "a file", "clouds:": "a file", "[": "a file",
	"cmp1": "output", "cp /path/to/checkout": "the path is the reader's",
	"berth init --driver fake": "TestInitAndLaunch runs it with other directories and ports",
	"berth init --join":        "TestThreeCommandsToSSH runs it with the token that was printed",
	"OS_AUTH_TYPE=http_basic":  "has a password", "export OS_AUTH_": "has a password",
	"ufw allow":          "a firewall of the reader's choice",
	"berth placement":    "five programs in five terminals; TestSeparateServices runs them on other ports",
	"berth agent adopt":  "TestBackupAndRestore runs it",
	"berth host heal":    "has names of hosts and consumers",
	"berth heal ports":   "has names of hosts and servers",
	"berth host bind":    "has an account",
	"berth server list":  "TestConsole and TestNumbersAndAddresses use --url",
	"berth console":      "runs until it is ended, with a cloud of the reader",
	"jq -r":              "has an id",
	"systemctl stop":     "for hosts that were not joined, with certificates of the reader",
	"dpkg-deb --extract": "has the version of a package",
	"install -m 755":     "has the version of a program",
	"skopeo copy":        "has the version of an image",
	"tar -xzf":           "has the version of an archive",
	"curl -X PUT":        "has a token and a project",
}

// Each indented block of the guide is a form, with a reason, or is put into a fence that a test runs.
func TestIndentedBlocksAreForms(t *testing.T) {
	t.Parallel()
	text := regexp.MustCompile("(?ms)^```.*?^```$").ReplaceAllString(guide(t), "")
	used := map[string]bool{}
	for _, m := range regexp.MustCompile(`\n\n {4,6}(\S.*)\n`).FindAllStringSubmatch(text, -1) {
		found := false
		for beginning := range formBlocks {
			if strings.HasPrefix(m[1], beginning) {
				used[beginning], found = true, true
			}
		}
		if !found {
			t.Errorf("no test runs %q; put it into a fence and a test, or give the reason in formBlocks", m[1])
		}
	}
	for beginning := range formBlocks {
		if !used[beginning] {
			t.Errorf("the guide has no block %q", beginning)
		}
	}
}

func read(t *testing.T, path string) string {
	t.Helper()
	if !filepath.IsAbs(path) {
		path = filepath.Join(root, path)
	}
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

// The command line accepts every berth command in the documents.
func TestCommandsInDocuments(t *testing.T) {
	t.Parallel()
	shown := 0
	for doc, text := range map[string]string{"README.md": read(t, "README.md"), "the guide": guide(t),
		"CONTRIBUTING.md": read(t, "CONTRIBUTING.md")} {
		for line := range strings.Lines(text) {
			match := regexp.MustCompile(`^(?:    )?berth ([^>#|&]+)`).FindStringSubmatch(line)
			if match == nil {
				continue
			}
			shown++
			var g grammar
			parser, err := kong.New(&g, kong.Exit(func(int) {}))
			if err != nil {
				t.Fatal(err)
			}
			args := strings.Fields(match[1])
			for i, arg := range args {
				// Files of the guide do not exist here; any existing file is accepted.
				if strings.HasSuffix(arg, ".conf") {
					args[i] = "main.go"
				}
			}
			if _, err := parser.Parse(args); err != nil {
				t.Errorf("%s: %s: %v", doc, strings.TrimSpace(line), err)
			}
		}
	}
	if shown < 15 {
		t.Errorf("only %d commands found: the form of the documents has changed; adapt this test", shown)
	}
}

// Each test and each quoted case in the table of differences from Nova exists.
func TestDifferencesNameExistingTests(t *testing.T) {
	t.Parallel()
	names := regexp.MustCompile("`([a-z/]+)`|(Test[A-Za-z0-9]+)|\"([^\"]+)\"")
	rows := 0
	for line := range strings.Lines(read(t, "docs/pci-differences-from-nova.md")) {
		cells := strings.Split(strings.TrimSpace(line), "|")
		if len(cells) != 6 || cells[1] == "---" || strings.TrimSpace(cells[1]) == "Nova" {
			continue
		}
		rows++
		tests, shown := "", 0
		for _, m := range names.FindAllStringSubmatch(cells[4], -1) {
			switch {
			case m[1] != "":
				tests = testsOf(t, m[1])
			case m[2] != "":
				if shown++; !strings.Contains(tests, "\nfunc "+m[2]+"(") {
					t.Errorf("the test %s does not exist:%s", m[2], cells[1])
				}
			case !strings.Contains(tests, strings.TrimSuffix(m[3], "…")):
				t.Errorf("the case %q does not exist:%s", m[3], cells[1])
			}
		}
		if shown == 0 {
			t.Errorf("no test is named for:%s", cells[1])
		}
	}
	if rows < 40 {
		t.Errorf("only %d rows found: the form of the document has changed; adapt this test", rows)
	}
}

// testsOf returns the text of all test files of a package.
func testsOf(t *testing.T, pkg string) string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(root, pkg, "*_test.go"))
	if err != nil {
		t.Fatal(err)
	}
	var text strings.Builder
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		text.WriteString("\n" + string(data))
	}
	return text.String()
}

// testedRows returns the rows of a page of behaviour that have a test or a scenario in its section "Tests", and checks
// that it exists.
func testedRows(t *testing.T, page string) map[string]bool {
	t.Helper()
	_, table, _ := strings.Cut(read(t, page), "\n## Tests\n")
	tested := map[string]bool{}
	row := regexp.MustCompile("(?m)^\\| ([A-Z0-9, ]+) \\| `([a-z/]+)` \\| `(Test\\w+|[a-z_/]+)` \\|$")
	for _, cells := range row.FindAllStringSubmatch(table, -1) {
		for name := range strings.SplitSeq(cells[1], ", ") {
			tested[name] = true
		}
		if strings.Contains(cells[3], "/") {
			if _, err := os.Stat(filepath.Join(root, cells[2], "testdata", cells[3]+".txt")); err != nil {
				t.Errorf("the scenario of %s does not exist: %v", cells[1], err)
			}
			continue
		}
		if !strings.Contains(testsOf(t, cells[2]), "\nfunc "+cells[3]+"(") {
			t.Errorf("the test %s of %s does not exist: %s", cells[3], cells[2], cells[1])
		}
	}
	return tested
}

// Each row of the page about networks has a test, and the test exists.
func TestEveryRowOfNetworksHasATest(t *testing.T) {
	t.Parallel()
	const page = "docs/behaviour/network.md"
	tested := testedRows(t, page)
	rows, _, _ := strings.Cut(read(t, page), "\n## Tests\n")
	found := 0
	code := regexp.MustCompile(`(?m)^\| ([A-Z][0-9]+(?:, [A-Z][0-9]+)*) \|`)
	for _, cells := range code.FindAllStringSubmatch(rows, -1) {
		for name := range strings.SplitSeq(cells[1], ", ") {
			found++
			if !tested[name] {
				t.Errorf("%s has no test", name)
			}
		}
	}
	if found < 130 {
		t.Errorf("%d rows", found)
	}
}
