package main

import (
	"os"
	"path/filepath"
)

// generated is a file that the program itself prints.
type generated struct {
	item
	family string // deb or rpm; empty: both
}

// describe lets the program print its manual pages, completions and configuration files.
func (b *build) describe(program string) error {
	for _, at := range []struct {
		path, family string
		mode         os.FileMode
		config       bool
		args         []string
	}{
		{"/etc/berth/berth.conf", "", 0o640, true, []string{"options"}},
		{"/etc/berth/agent.conf", "", 0o600, true, []string{"options", "--agent"}},
		{"/usr/share/bash-completion/completions/berth", "", 0o644, false, []string{"completion", "bash"}},
		{"/usr/share/zsh/vendor-completions/_berth", "deb", 0o644, false, []string{"completion", "zsh"}},
		{"/usr/share/zsh/site-functions/_berth", "rpm", 0o644, false, []string{"completion", "zsh"}},
		{"/usr/share/fish/vendor_completions.d/berth.fish", "", 0o644, false, []string{"completion", "fish"}},
	} {
		data, err := command(b.temporary, nil, program, at.args...)
		if err != nil {
			return err
		}
		b.generated = append(b.generated, generated{item{at.path, at.mode, at.config, data}, at.family})
	}
	pages := filepath.Join(b.temporary, "man")
	if err := os.Mkdir(pages, 0o755); err != nil {
		return err
	}
	if _, err := command(b.temporary, nil, program, "manual", pages); err != nil {
		return err
	}
	entries, err := os.ReadDir(pages)
	if err != nil {
		return err
	}
	for _, entry := range entries {
		data, err := os.ReadFile(filepath.Join(pages, entry.Name()))
		if err != nil {
			return err
		}
		if data, err = compressed(data); err != nil {
			return err
		}
		path := "/usr/share/man/man1/" + entry.Name() + ".gz"
		b.generated = append(b.generated, generated{item{path, 0o644, false, data}, ""})
	}
	return nil
}
