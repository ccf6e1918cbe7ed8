package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/openberth/berth/internal/testenv"
)

// bash completes commands, flags and values of flags; the values of flags before a command are skipped.
func TestCompletionInBash(t *testing.T) {
	t.Parallel()
	script, _, status := output(t, "completion", "bash")
	if status != 0 {
		t.Fatalf("status %d", status)
	}
	names := listing(t)
	for line, want := range map[string]string{
		"berth server show we":                  "web1 web2",
		"berth server group delete web1 web2 w": "web1 web2",
		"berth server create x --flavor w":      "web1 web2",
		"berth host show x":                     "",
		"berth serv":                            "server",
		"berth server cr":                       "create",
		"berth -o json server cr":               "create",
		"berth --token server flavor cr":        "create",
		"berth server create --fla":             "--flavor",
		"berth --outp":                          "--output",
		"berth server list -o ":                 "table json",
		"berth completion ":                     "",
		"berth placement d":                     "db",
		"berth manu":                            "",
		"berth server create web --flavor sma":  "",
	} {
		words := strings.Split(line, " ")
		cmd := exec.Command("bash", "-c", script+"\nCOMP_WORDS=(\"$@\")\nCOMP_CWORD=$(($# - 1))\n_berth\n"+
			`echo "${COMPREPLY[*]}"`, "bash")
		cmd.Args = append(cmd.Args, words...)
		cmd.Env = names
		out, err := cmd.CombinedOutput()
		if got := strings.TrimSpace(string(out)); err != nil || got != want {
			t.Errorf("%q: %q %v instead of %q", line, got, err, want)
		}
	}
}

// listing returns an environment in which berth is a program that lists web1 and web2 as any command's objects.
func listing(t *testing.T) []string {
	dir := t.TempDir()
	text := "#!/bin/sh\nprintf 'NAME\\nweb1\\nweb2\\n'\n"
	must(t, os.WriteFile(filepath.Join(dir, "berth"), []byte(text), 0o700))
	return append(os.Environ(), "PATH="+dir+":"+os.Getenv("PATH"))
}

// zsh and fish accept their scripts, and fish completes.
func TestCompletionInOtherShells(t *testing.T) {
	testenv.Need(t, "zsh", "fish")
	t.Parallel()
	for _, shell := range []string{"zsh", "fish"} {
		script, _, _ := output(t, "completion", shell)
		file := filepath.Join(t.TempDir(), "script")
		if err := os.WriteFile(file, []byte(script), 0o600); err != nil {
			t.Fatal(err)
		}
		if out, err := exec.Command(shell, "-n", file).CombinedOutput(); err != nil || len(out) > 0 {
			t.Errorf("%s: %v\n%s", shell, err, out)
		}
		if shell != "fish" {
			continue
		}
		for line, want := range map[string]string{"berth serv": "server\t", "berth server cr": "create\t",
			"berth --token x -o ": "table", "berth server show w": "web1", "berth server list --host w": "web1"} {
			cmd := exec.Command("fish", "-c", "source "+file+"; complete -C "+quoted(line))
			cmd.Env = listing(t)
			out, err := cmd.CombinedOutput()
			if err != nil || !strings.HasPrefix(string(out), want) && !strings.Contains(string(out), "\n"+want) {
				t.Errorf("%q: %v %q", line, err, out)
			}
		}
	}
}

// zshSession types keys in an interactive zsh that has a script, and prints what it shows. $1 is the file, $2 how it is
// used, and the others are the keys before each TAB.
const zshSession = `zmodload zsh/zpty
shown() { local all="" part until=$((SECONDS + 600))
	while ((SECONDS < until)); do
		zpty -r -t z part && all+=$part
		[[ $all == *$1* ]] && break
		sleep 0.05
	done
	print -r -- "$all"; }
zpty z zsh -f -i
case $2 in
fpath) use="fpath=(${1:h} \$fpath); autoload -Uz compinit; compinit -u -D" ;;
source) use="autoload -Uz compinit; compinit -u -D; source $1" ;;
esac
zpty -w z "PS1='% '; $use; bindkey '^I' complete-word; echo REA''DY"
shown READY >/dev/null
for keys in "${@:3}"; do
	zpty -w -n z $'\x15'"${keys%%=*}"$'\t'
	shown "${keys#*=}"
done
`

// zsh completes commands, flags and names, with the script in fpath and sourced.
func TestCompletionInZsh(t *testing.T) {
	testenv.Need(t, "zsh")
	t.Parallel()
	script, _, _ := output(t, "completion", "zsh")
	file := filepath.Join(t.TempDir(), "_berth")
	must(t, os.WriteFile(file, []byte(script), 0o600))
	want := map[string]string{"berth serv": "berth server", "berth server cr": "berth server create",
		"berth server create --flav": "berth server create --flavor", "berth server show we": "berth server show web"}
	for _, use := range []string{"fpath", "source"} {
		args := []string{"-f", "-c", zshSession, "zsh", file, use}
		for keys, shown := range want {
			args = append(args, keys+"="+shown)
		}
		cmd := exec.Command("zsh", args...)
		cmd.Env = append(listing(t), "TERM=dumb", "HOME="+t.TempDir())
		out, err := cmd.CombinedOutput()
		for _, shown := range want {
			if err != nil || !strings.Contains(string(out), shown) {
				t.Errorf("%s: no %q: %v\n%q", use, shown, err, out)
			}
		}
	}
}

// The manual pages have every command of the program, and groff finds no fault in them.
func TestManualPages(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	if _, log, status := output(t, "manual", dir); status != 0 {
		t.Fatal(log)
	}
	pages, err := filepath.Glob(filepath.Join(dir, "*.1"))
	if err != nil || len(pages) < 15 {
		t.Fatalf("%v %v", pages, err)
	}
	program := read(t, filepath.Join(dir, "berth.1"))
	for _, page := range pages {
		name := strings.TrimSuffix(filepath.Base(page), ".1")
		if name != "berth" && !strings.Contains(program, ".BR "+roff(name)+" (1)") {
			t.Errorf("berth.1 does not name %s", name)
		}
	}
	for page, texts := range map[string][]string{
		"berth-server":  {".B berth server create\n.I <name>", `.B \-\-flavor`},
		"berth-agent":   {"berth agent check", `.B \-\-config\-file`},
		"berth-compute": {"BERTH_LISTEN_COMPUTE"},
	} {
		for _, text := range texts {
			if !strings.Contains(read(t, filepath.Join(dir, page+".1")), text) {
				t.Errorf("%s does not have %q", page, text)
			}
		}
	}
	testenv.Need(t, "man")
	for _, page := range pages {
		out, err := exec.Command("man", "--warnings", "--encoding=UTF-8", "--local-file", page).CombinedOutput()
		if err != nil || strings.Contains(string(out), "warning:") {
			t.Errorf("%s: %v\n%.500s", page, err, out)
		}
	}
}
