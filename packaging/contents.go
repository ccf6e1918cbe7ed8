package main

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// item is a file of the packages.
type item struct {
	path   string // in the package
	mode   fs.FileMode
	config bool // changes of the administrator are kept
	data   []byte
}

// contents returns the files beside the program; family is deb or rpm.
func (b *build) contents(family, arch string) ([]item, error) {
	var list []item
	for _, u := range units() {
		text, err := u.text()
		if err != nil {
			return nil, err
		}
		list = append(list, item{path: "/usr/lib/systemd/system/" + u.Unit + ".service", mode: 0o644, data: text})
	}
	for _, at := range []struct {
		file, path string
		config     bool
	}{
		{"sysusers.conf", "/usr/lib/sysusers.d/berth.conf", false},
		{"tmpfiles.conf", "/usr/lib/tmpfiles.d/berth.conf", false},
		{"environment", "/etc/berth/environment", true},
	} {
		data, err := files.ReadFile("files/" + at.file)
		if err != nil {
			return nil, err
		}
		list = append(list, item{path: at.path, mode: 0o644, config: at.config, data: data})
	}
	documents, err := b.documents(arch)
	if err != nil {
		return nil, err
	}
	list = append(list, documents...)
	for _, one := range b.generated {
		if one.family == "" || one.family == family {
			list = append(list, one.item)
		}
	}
	return list, nil
}

// documents returns the licences, the changes and the guide.
func (b *build) documents(arch string) ([]item, error) {
	var list []item
	add := func(path string, data []byte) {
		list = append(list, item{path: "/usr/share/doc/berth/" + path, mode: 0o644, data: data})
	}
	licence, err := os.ReadFile(filepath.Join(b.dir, "LICENSE"))
	if err != nil {
		return nil, err
	}
	add("copyright", licence)
	terms, err := b.notices(arch)
	if err != nil {
		return nil, err
	}
	if terms, err = compressed(terms); err != nil {
		return nil, err
	}
	add("modules.gz", terms)
	changes, err := os.ReadFile(filepath.Join(b.dir, "CHANGELOG.md"))
	if err != nil {
		return nil, err
	}
	if changes, err = compressed(changes); err != nil {
		return nil, err
	}
	add("changelog.gz", changes)
	guide, err := filepath.Glob(filepath.Join(b.dir, "docs", "guide", "*.md"))
	if err != nil || len(guide) == 0 {
		return nil, fmt.Errorf("docs/guide has no chapters: %v", err)
	}
	for _, chapter := range guide {
		data, err := os.ReadFile(chapter)
		if err != nil {
			return nil, err
		}
		add("guide/"+filepath.Base(chapter), data)
	}
	return list, nil
}

// compressed returns data as gzip writes it without name and time.
func compressed(data []byte) ([]byte, error) {
	var out bytes.Buffer
	w, err := gzip.NewWriterLevel(&out, gzip.BestCompression)
	if err != nil {
		return nil, err
	}
	if _, err := w.Write(data); err != nil {
		return nil, err
	}
	err = w.Close()
	return out.Bytes(), err
}

// script returns a script of a package.
func script(family, name string) ([]byte, error) {
	text, err := files.ReadFile("files/" + family + "/" + name)
	if err != nil {
		return nil, err
	}
	var start, stop []string
	for _, name := range controllers {
		start = append(start, "berth-"+name)
	}
	start = append(start, "berth-audit", "berth-console", "berth-agent", "berth")
	for i := range start {
		stop = append(stop, start[len(start)-1-i])
	}
	return []byte(strings.NewReplacer("@UNITS@", strings.Join(start, " "), "@STOP@", strings.Join(stop, " ")).
		Replace(string(text))), nil
}
