package sysfs

import (
	"errors"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/openberth/berth/fault"
	"github.com/openberth/berth/pci"
)

// SetVFs sets the number of VFs of a PF. It changes nothing if the PF has this many, or, for a count above 0, if it has
// any. Unavailable: the kernel or the driver refuses it now. Conflict: this process may not change it.
func (s Source) SetVFs(pf pci.Address, count int) error {
	name := path.Join(deviceDir, pf.String(), "sriov_numvfs")
	text, err := fs.ReadFile(s.FS, name)
	if err != nil {
		return fault.New(fault.Unavailable, "cannot read the number of VFs of %s: %w", pf, err)
	}
	now, err := strconv.Atoi(strings.TrimSpace(string(text)))
	if err == nil && (now == count || now > 0 && count > 0) {
		return nil
	}
	if m, is := s.FS.(*Machine); is {
		err = m.setVFs(pf, count)
	} else {
		// no O_CREATE and no O_TRUNC: it is a file of the kernel
		err = writeFile(filepath.Join(s.Name, filepath.FromSlash(name)), strconv.Itoa(count))
	}
	switch {
	case errors.Is(err, fs.ErrPermission):
		return fault.New(fault.Conflict, "cannot set the number of VFs of %s to %d: %w; run the agent as root", pf, count,
			err)
	case err != nil:
		return fault.New(fault.Unavailable, "cannot set the number of VFs of %s to %d: %w", pf, count, err)
	}
	return nil
}

// writeFile writes a text to a file that exists, in one write.
func writeFile(name, text string) error {
	f, err := os.OpenFile(name, os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	_, err = f.WriteString(text)
	return errors.Join(err, f.Close())
}
