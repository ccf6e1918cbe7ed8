package libvirt

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/google/uuid"

	"github.com/openberth/berth/agent/hypervisor/libvirt/rpc"
	"github.com/openberth/berth/fault"
)

// claimDir records that this host has its guests in its directory. The fault is Invalid if the directory was that of
// another host when the agent started, and that host is this one under another name.
func claimDir(ctx context.Context, d *Driver) error {
	if d.o.Host == "" {
		return nil
	}
	_, known := os.Lstat(d.markerPath()) // it may be damaged
	if d.o.root != "" && known != nil {
		if err := checkOtherHosts(ctx, d); err != nil {
			return err
		}
	}
	if known != nil {
		err := os.MkdirAll(d.path(hostsDir), 0o700)
		if err == nil {
			err = os.WriteFile(d.markerPath(), nil, 0o600)
		}
		if err != nil {
			return fault.Wrap(fault.Unavailable, err)
		}
	}
	first, err := d.claimFirst()
	if err != nil {
		return fault.Wrap(fault.Unavailable, err)
	}
	if first != d.o.Host { // both have started at the same time
		return fault.New(fault.Invalid, "host %s began to use %s at the same time: %w; start the agent again, and it "+
			"uses a directory of its own there", first, d.o.Dir, errors.Join(os.ErrExist, os.Remove(d.markerPath())))
	}
	return nil
}

// claimFirst returns the name of the host whose directory it is: of several that start at the same time, one gets it. A
// host that has left it does not count.
func (d directory) claimFirst() (first string, err error) {
	link := d.path(firstName)
	for range 2 {
		if err = os.Symlink(d.o.Host, link); !errors.Is(err, fs.ErrExist) {
			return d.o.Host, err
		}
		if first, err = os.Readlink(link); err != nil || first == d.o.Host {
			return first, err
		}
		if _, err := os.Lstat(d.path(hostsDir, first)); err == nil {
			return first, nil
		}
		if err := remove(link); err != nil {
			return "", err
		}
	}
	return first, err
}

// checkOtherHosts returns fault.Invalid if the libvirt of this host has the guests of the host that was first in the
// directory: then this is that host, which was renamed.
func checkOtherHosts(ctx context.Context, d *Driver) error {
	c, err := rpc.Dial(ctx, d.o.Socket, d.o.URI, d.o.CallTime)
	if err != nil {
		return fault.Wrap("", err)
	}
	defer c.Close()
	drain(c)
	all, err := c.Domains(ctx)
	if err != nil {
		return fault.Wrap("", err)
	}
	for _, other := range otherHosts(d.o.root, d.o.Host) {
		o := d.o
		o.Host, o.Dir = other, d.o.root
		was := &Driver{o: o, directory: directory{&o}}
		same, err := was.isMarked(ctx, c)
		if err != nil {
			return err
		}
		for _, one := range all {
			record, err := was.readRecord(one.UUID)
			same = same || err == nil && record.Host == other
		}
		if same {
			return fault.New(fault.Invalid, "this libvirt has the guests of host %s, which are in %s: the host was "+
				"renamed; set [DEFAULT] host to %[1]s again, or set another instances_path", other, d.o.root)
		}
	}
	return nil
}

// probePrefix is that of the names of files by which hosts find out whether they share a directory.
const probePrefix = "probe-"

// isShared reports whether another host has the same directory under the same path: it sees a file that this host
// writes. read returns the content of a file there, and NotFound if it does not exist.
func isShared(ctx context.Context, dir string,
	read func(ctx context.Context, path string) ([]byte, error)) (shared bool, err error) {
	path, content := filepath.Join(dir, probePrefix+uuid.NewString()), uuid.NewString()
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		_ = remove(path)
		return false, nil // where it cannot write, it cannot use the disk
	}
	there, err := read(ctx, path)
	if err != nil && !fault.Is(err, fault.NotFound) {
		return false, errors.Join(err, remove(path))
	}
	return string(there) == content, fault.Wrap(fault.Unavailable, remove(path))
}
