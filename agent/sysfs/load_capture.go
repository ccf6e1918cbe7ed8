package sysfs

import (
	_ "embed"
	"errors"
	"io/fs"
	"path"
	"strings"
	"syscall"
	"testing/fstest" // MapFS: the one file system in memory that has symlinks

	"golang.org/x/tools/txtar"

	"github.com/openberth/berth/pci"
)

//go:embed sample.txtar
var sample []byte

// Sample returns a captured machine with two NVMe PFs of four VFs each on two NUMA nodes, a NIC and a plain device,
// for demonstrations on a machine without PCI devices to offer.
func Sample() (*Machine, error) { return Load(sample) }

// Load makes a file system of a captured machine, from the entries that Capture lists. Invalid when an entry is there
// twice or inside another one, or when a symlink has content, leaves /sys, or leads through another symlink, which none
// of the kernel's does here, and when there is no device.
func Load(archive []byte) (*Machine, error) {
	m := captured{MapFS: fstest.MapFS{}, unreadable: map[string]error{}, unlisted: map[string]error{}}
	for _, file := range txtar.Parse(archive).Files {
		if err := m.add(file); err != nil {
			return nil, err
		}
	}
	devices := false
	for name, file := range m.MapFS {
		devices = devices || strings.HasPrefix(name, deviceDir+"/")
		if above, inside := entryAbove(m.MapFS, path.Dir(name)); inside && !m.MapFS[above].Mode.IsDir() {
			return nil, invalid("archive entry %q is inside %q, which is not a directory", name, above)
		}
		if file.Mode.Type() != fs.ModeSymlink {
			continue
		}
		target := path.Join(path.Dir(name), string(file.Data))
		if path.IsAbs(string(file.Data)) || !validPath(target) || target == "." {
			return nil, invalid("archive symlink %q leads to %q, outside /sys", name, file.Data)
		}
		if above, inside := entryAbove(m.MapFS, target); inside && m.MapFS[above].Mode.Type() == fs.ModeSymlink {
			return nil, invalid("archive symlink %q leads through the symlink %q", name, above)
		}
	}
	if !devices {
		return nil, invalid("the archive has no device under %s: it is not a captured machine", deviceDir)
	}
	return &Machine{now: m, removed: map[pci.Address]fstest.MapFS{}}, nil
}

// captured is a file system in memory in which some names cannot be read, as on the machine that was captured.
type captured struct {
	fstest.MapFS
	unreadable map[string]error // also all names below
	unlisted   map[string]error // directories
}

// add adds an entry of the archive.
func (m *captured) add(file txtar.File) error {
	name, why, isUnreadable := strings.Cut(file.Name, unreadableMark)
	name, target, isLink := strings.Cut(name, arrow)
	name, isSerial := strings.CutSuffix(name, serialEntry)
	name, isDir := strings.CutSuffix(name, "/")
	name = unescape(name)
	if !validPath(name) || name == "." {
		return invalid("archive entry %q is not a path under /sys", file.Name)
	}
	if _, twice := m.MapFS[name]; twice {
		return invalid("archive entry %q occurs twice", name)
	}
	entry := &fstest.MapFile{Data: []byte(unescapeLines(string(file.Data))), Mode: 0o444}
	m.MapFS[name] = entry
	switch {
	case (isLink || isDir || isUnreadable) && len(file.Data) > 0:
		what := "cannot be read"
		if isLink {
			what = "is a symlink"
		} else if isDir {
			what = "is a directory"
		}
		return invalid("archive entry %q %s and has content", file.Name, what)
	case isLink:
		entry.Data, entry.Mode = []byte(unescape(target)), fs.ModeSymlink|0o777
	case isDir:
		entry.Mode = fs.ModeDir | 0o755
	case isSerial:
		entry.Data = formatSerial(strings.TrimSpace(string(entry.Data)))
	}
	if isUnreadable && isDir {
		m.unlisted[name] = reasonFor(unescape(why))
	} else if isUnreadable {
		m.unreadable[name] = reasonFor(unescape(why))
	}
	return nil
}

// reasonFor returns an error with this text; a known error where Read distinguishes it.
func reasonFor(text string) error {
	for _, known := range []error{fs.ErrNotExist, syscall.EACCES, syscall.EPERM, syscall.ENODEV} {
		if known.Error() == text {
			return known
		}
	}
	return errors.New(text)
}

// check returns the error of an operation on a name, if it fails. Only the links in the list of devices are followed.
func (m captured) check(op, name string, failing map[string]error, below bool) error {
	if dir, rest, found := cutDevice(name); found && m.MapFS[dir] != nil && m.MapFS[dir].Mode.Type() == fs.ModeSymlink {
		name = path.Join(deviceDir, string(m.MapFS[dir].Data), rest)
	}
	for at := name; at != "." && at != "/"; at = path.Dir(at) {
		if err := failing[at]; err != nil {
			return &fs.PathError{Op: op, Path: name, Err: err}
		}
		if !below {
			break
		}
	}
	return nil
}

// cutDevice splits a name into the entry of a device and the path below it.
func cutDevice(name string) (entry, rest string, found bool) {
	below, found := strings.CutPrefix(name, deviceDir+"/")
	device, rest, _ := strings.Cut(below, "/")
	return path.Join(deviceDir, device), rest, found
}

// Open opens a file or a directory.
func (m captured) Open(name string) (fs.File, error) {
	if err := m.check("open", name, m.unreadable, true); err != nil {
		return nil, err
	}
	return m.MapFS.Open(name)
}

// ReadFile reads a file.
func (m captured) ReadFile(name string) ([]byte, error) {
	if err := m.check("open", name, m.unreadable, true); err != nil {
		return nil, err
	}
	return m.MapFS.ReadFile(name)
}

// ReadDir lists a directory.
func (m captured) ReadDir(name string) ([]fs.DirEntry, error) {
	if err := m.check("open", name, m.unreadable, true); err != nil {
		return nil, err
	}
	if err := m.check("readdir", name, m.unlisted, false); err != nil {
		return nil, err
	}
	return m.MapFS.ReadDir(name)
}

// ReadLink reads a link.
func (m captured) ReadLink(name string) (string, error) {
	if _, rest, found := cutDevice(name); !found || rest != "" {
		if err := m.check("readlink", name, m.unreadable, true); err != nil {
			return "", err
		}
	}
	return m.MapFS.ReadLink(name)
}

// Stat describes a file or a directory.
func (m captured) Stat(name string) (fs.FileInfo, error) {
	if err := m.check("stat", name, m.unreadable, true); err != nil {
		return nil, err
	}
	return m.MapFS.Stat(name)
}

// validPath is fs.ValidPath for names that need not be UTF-8.
func validPath(name string) bool { return fs.ValidPath(strings.ToValidUTF8(name, "?")) }

// entryAbove returns the entry at a path, or at one of its parents.
func entryAbove(fsys fstest.MapFS, name string) (above string, found bool) {
	for ; name != "."; name = path.Dir(name) {
		if _, found := fsys[name]; found {
			return name, true
		}
	}
	return "", false
}
