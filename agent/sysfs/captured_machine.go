package sysfs

import (
	"fmt"
	"io/fs"
	"maps"
	"path"
	"strconv"
	"strings"
	"sync"
	"testing/fstest"

	"github.com/openberth/berth/pci"
)

// Machine is a captured machine on which the numbers of VFs can change, as the kernel would change them.
type Machine struct {
	mu      sync.Mutex
	now     captured
	removed map[pci.Address]fstest.MapFS // the entries of the VFs that a PF does not have now
}

// machine returns the file system as it is now.
func (m *Machine) machine() fs.FS {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.now
}

// setVFs removes the VFs of a PF, or returns those that were removed.
func (m *Machine) setVFs(pf pci.Address, count int) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	entry := path.Join(deviceDir, pf.String())
	number, ok := m.now.MapFS[path.Join(m.now.target(entry), "sriov_numvfs")]
	if !ok {
		return fs.ErrNotExist
	}
	vfs := m.removed[pf]
	if count == 0 {
		vfs = m.now.vfsOf(pf)
	}
	if n := len(m.now.namesOfVFs(vfs)); count > 0 && n != count {
		return fmt.Errorf("the captured machine has %d VFs there", n)
	}
	next := maps.Clone(m.now.MapFS)
	if count > 0 {
		maps.Copy(next, vfs)
		delete(m.removed, pf)
	} else {
		maps.DeleteFunc(next, func(name string, _ *fstest.MapFile) bool { return vfs[name] != nil })
		m.removed[pf] = vfs
	}
	next[path.Join(m.now.target(entry), "sriov_numvfs")] = &fstest.MapFile{Data: []byte(strconv.Itoa(count) + "\n"),
		Mode: number.Mode}
	m.now.MapFS = next
	return nil
}

// target returns the directory that the entry of a device leads to.
func (m captured) target(entry string) string {
	if link := m.MapFS[entry]; link != nil && link.Mode.Type() == fs.ModeSymlink {
		return path.Join(deviceDir, string(link.Data))
	}
	return entry
}

// vfsOf returns the entries of the VFs of a PF: their directories, and all links to these.
func (m captured) vfsOf(pf pci.Address) fstest.MapFS {
	out := fstest.MapFS{}
	numbers := path.Join(m.target(path.Join(deviceDir, pf.String())), "virtfn")
	for name, file := range m.MapFS {
		if strings.HasPrefix(name, numbers) {
			out[name] = file
		}
	}
	for entry, link := range m.MapFS {
		dir := m.target(entry)
		parent := m.MapFS[path.Join(dir, "physfn")]
		if path.Dir(entry) != deviceDir || parent == nil || path.Base(string(parent.Data)) != pf.String() {
			continue
		}
		out[entry] = link
		for name, file := range m.MapFS {
			if name == dir || strings.HasPrefix(name, dir+"/") {
				out[name] = file
			}
		}
	}
	return out
}

// namesOfVFs lists the devices among entries.
func (captured) namesOfVFs(entries fstest.MapFS) (names []string) {
	for name := range entries {
		if path.Base(name) == "physfn" {
			names = append(names, name)
		}
	}
	return names
}

// Open opens a file or a directory.
func (m *Machine) Open(name string) (fs.File, error) { return m.machine().Open(name) }

// ReadFile reads a file.
func (m *Machine) ReadFile(name string) ([]byte, error) { return fs.ReadFile(m.machine(), name) }

// ReadDir lists a directory.
func (m *Machine) ReadDir(name string) ([]fs.DirEntry, error) { return fs.ReadDir(m.machine(), name) }

// ReadLink reads a link.
func (m *Machine) ReadLink(name string) (string, error) { return fs.ReadLink(m.machine(), name) }

// Lstat describes a file, a directory or a link.
func (m *Machine) Lstat(name string) (fs.FileInfo, error) { return fs.Lstat(m.machine(), name) }

// Stat describes a file or a directory.
func (m *Machine) Stat(name string) (fs.FileInfo, error) { return fs.Stat(m.machine(), name) }
