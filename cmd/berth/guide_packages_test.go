package main

import (
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/openberth/berth/internal/testenv"
)

// Each program in the blocks of the guide is of a minimal Debian with systemd, or of the packages that its page or the
// guide's first page names, with what they depend on. Most tests of the blocks run them with all that this machine has.
func TestPagesNameTheirPackages(t *testing.T) {
	testenv.Need(t, "apt-get")
	t.Parallel()
	pages, err := filepath.Glob(filepath.Join(root, "docs/guide/*.md"))
	must(t, err)
	everywhere := namedPackages(read(t, "docs/guide/README.md"))
	packages := aptWithCache(t.TempDir())
	base := packages.installedWith(t, everywhere)
	checked := 0
	for _, page := range pages {
		text := read(t, "docs/guide/"+filepath.Base(page))
		missing := missingPrograms(t, programsIn(text), base)
		if len(missing) > 0 {
			missing = missingPrograms(t, missing, packages.installedWith(t, append(namedPackages(text), everywhere...)))
		}
		for _, name := range missing {
			t.Errorf("%s uses %s, which is in no package that it or the first page names", page, name)
		}
		checked += len(programsIn(text))
	}
	if checked < 30 {
		t.Errorf("the guide's blocks have only %d programs; has their form changed?", checked)
	}
}

// shellWords are words at the beginning of commands that are of the shell itself, and the program of the guide.
var shellWords = strings.Fields("berth cd do done echo exec export fi for if kill printf set test then true umask " +
	"until wait while")

// programsIn returns the programs that the blocks of a page call.
func programsIn(text string) (names []string) {
	for _, block := range regexp.MustCompile("(?ms)^```sh.*?\n(.*?)^```").FindAllStringSubmatch(text, -1) {
		script := regexp.MustCompile(`(?ms)^([^\n]*<<'?END'?[^\n]*\n).*?^END$`).ReplaceAllString(block[1], "$1")
		script = regexp.MustCompile(`'[^']*'| # .*`).ReplaceAllString(strings.ReplaceAll(script, "\\\n", " "), "")
		for _, command := range regexp.MustCompile(`[\n;|&(]|\b(do|if|then|until|while)\b`).Split(script, -1) {
			words := slices.DeleteFunc(strings.Fields(command), regexp.MustCompile(`^[A-Za-z_]+=`).MatchString)
			if len(words) > 0 && regexp.MustCompile(`^[a-z][a-z0-9._-]*$`).MatchString(words[0]) &&
				!slices.Contains(shellWords, words[0]) {
				names = append(names, words[0])
			}
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// namedPackages returns the packages that a page installs in a block, or names in its text after "package" or
// "packages".
func namedPackages(text string) (packages []string) {
	text = strings.ReplaceAll(text, "\\\n", " ")
	for _, found := range regexp.MustCompile(`(?m)^apt-get install -y (.*)$`).FindAllStringSubmatch(text, -1) {
		packages = append(packages, strings.Fields(found[1])...)
	}
	list := regexp.MustCompile("\\bpackages?\\s((`[a-z0-9-]+`(,?\\s(and\\s)?)?)+)")
	for _, found := range list.FindAllStringSubmatch(text, -1) {
		for _, one := range regexp.MustCompile("`([^`]+)`").FindAllStringSubmatch(found[1], -1) {
			packages = append(packages, one[1])
		}
	}
	return slices.DeleteFunc(packages, func(one string) bool {
		return strings.HasPrefix(one, "-") || strings.Contains(one, "/") // an option, or Berth's package
	})
}

// aptOptions are the options of apt-get for a machine without packages.
type aptOptions []string

// aptWithCache returns the options with a directory where apt keeps what it has read of all packages.
func aptWithCache(dir string) aptOptions {
	return aptOptions{"-s", "-o", "Dir::State::status=/dev/null", "-o", "Dir::Cache::pkgcache=" + dir + "/packages",
		"-o", "Dir::Cache::srcpkgcache=" + dir + "/sources"}
}

// installedWith returns the packages that a minimal Debian with systemd and packages has, with what they depend on.
func (a aptOptions) installedWith(t *testing.T, packages []string) map[string]bool {
	t.Helper()
	args := append(slices.Clone(a), "--no-install-recommends", "install", "systemd")
	args = append(args, packages...)
	out, err := exec.Command("apt-get", args...).CombinedOutput()
	if err != nil {
		t.Fatalf("%q: %v %s; run apt-get update", args, err, out)
	}
	installed := map[string]bool{}
	for _, found := range regexp.MustCompile(`(?m)^Inst (\S+)`).FindAllStringSubmatch(string(out), -1) {
		installed[found[1]] = true
	}
	out, err = exec.Command("dpkg-query", "-W", "-f", "${Package} ${Essential} ${Priority}\n").Output()
	must(t, err)
	for line := range strings.Lines(string(out)) {
		if words := strings.Fields(line); words[0] == "apt" || slices.Contains(words[1:], "yes") ||
			slices.Contains(words[1:], "required") {
			installed[words[0]] = true
		}
	}
	return installed
}

// missingPrograms returns the programs that are in none of the packages.
func missingPrograms(t *testing.T, programs []string, installed map[string]bool) (missing []string) {
	t.Helper()
	if len(programs) == 0 {
		return nil
	}
	args := []string{"--search"}
	for _, name := range programs {
		args = append(args, "/usr/bin/"+name, "/bin/"+name, "/usr/sbin/"+name, "/sbin/"+name) // packages have one of them
	}
	out, _ := exec.Command("dpkg", args...).Output() // it fails because packages do not have all of them
	for _, name := range programs {
		owner := regexp.MustCompile(`(?m)^([^:\n]+): /.*/` + regexp.QuoteMeta(name) + "$").FindSubmatch(out)
		if owner == nil {
			t.Fatalf("no package of this machine has %s; `make tools` installs what the guide uses", name)
		}
		if !installed[string(owner[1])] {
			missing = append(missing, name)
		}
	}
	return missing
}
