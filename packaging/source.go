package main

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// tree is the source of one commit, without uncommitted changes.
type tree struct {
	dir     string
	commit  string
	version string
	time    time.Time // of the commit; every file of the packages has it
}

// export extracts the commit that is checked out into a directory below dir. An empty version means that of git: the
// tag of the commit without its v, or 0.0.0~git with the time and the commit, which sort in the order of the commits.
func export(dir, version string) (tree, error) {
	root, err := git("rev-parse", "--show-toplevel")
	if err != nil {
		return tree{}, err
	}
	log, err := git("log", "-1", "--format=%H %ct")
	if err != nil {
		return tree{}, err
	}
	commit, seconds, _ := strings.Cut(log, " ")
	number, err := strconv.ParseInt(seconds, 10, 64)
	if err != nil {
		return tree{}, fmt.Errorf("time of the commit: %w", err)
	}
	t := tree{dir: filepath.Join(dir, "source"), commit: commit, version: version, time: time.Unix(number, 0).UTC()}
	if t.version == "" {
		t.version = "0.0.0~git" + t.time.Format("20060102150405") + "." + commit[:12]
		if tag, err := git("describe", "--tags", "--exact-match", "--match=v[0-9]*"); err == nil {
			t.version = strings.TrimPrefix(tag, "v")
		}
	}
	if changed, err := git("status", "--porcelain"); err == nil && changed != "" {
		fmt.Fprintln(os.Stderr, "packaging: uncommitted changes are not packaged")
	}
	archive := filepath.Join(dir, "source.tar")
	if _, err := git("-C", root, "archive", "--format=tar", "--output="+archive, commit); err != nil {
		return tree{}, err
	}
	if err := os.Mkdir(t.dir, 0o755); err != nil {
		return tree{}, err
	}
	_, err = command(dir, nil, "tar", "-C", t.dir, "-xf", archive)
	return t, err
}

// source writes the source archive: the commit with the modules that it needs in vendor, so that it builds without a
// network. The file VERSION has what -ldflags set.
func (b *build) source() error {
	if _, err := command(b.dir, settled, "go", "mod", "vendor"); err != nil {
		return err
	}
	text := "version " + b.version + "\ncommit " + b.commit + "\ntime " + b.time.Format(time.RFC3339) + "\n"
	if err := os.WriteFile(filepath.Join(b.dir, "VERSION"), []byte(text), 0o644); err != nil {
		return err
	}
	name := "berth-" + b.version
	parent := filepath.Join(b.temporary, "archive")
	if err := os.Mkdir(parent, 0o755); err != nil {
		return err
	}
	if err := os.Rename(b.dir, filepath.Join(parent, name)); err != nil {
		return err
	}
	plain := filepath.Join(b.temporary, name+".tar")
	if err := archive(parent, plain, b.time); err != nil {
		return err
	}
	data, err := os.ReadFile(plain)
	if err != nil {
		return err
	}
	if data, err = compressed(data); err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(b.out, "berth_"+b.version+"_source.tar.gz"), data, 0o644)
}

// git returns the output of a git command without white space around it.
func git(args ...string) (string, error) {
	out, err := command("", nil, "git", args...)
	return strings.TrimSpace(string(out)), err
}

// command runs a program in a directory with further variables, and returns its standard output.
func command(dir string, variables []string, name string, args ...string) ([]byte, error) {
	cmd := exec.Command(name, args...)
	cmd.Dir, cmd.Env = dir, append(os.Environ(), variables...)
	var errs bytes.Buffer
	cmd.Stderr = &errs
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("%s %s: %w\n%s", name, strings.Join(args, " "), err, errs.Bytes())
	}
	return out, nil
}
