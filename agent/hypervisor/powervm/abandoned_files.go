package powervm

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/openberth/berth/agent/hypervisor"
	"github.com/openberth/berth/datafile"
	"github.com/openberth/berth/fault"
)

// abandoned is a partition that the server was requested to create, that it did not report, and that no guest needs any
// more. The server may still create it.
type abandoned struct {
	Version int       `json:"version"`
	System  string    `json:"system_uuid"`
	Name    string    `json:"partition_name"`
	Guest   string    `json:"guest"`
	Since   time.Time `json:"since"`
	// Removing is the UUID of the partition that the server is requested to delete, which it may do late; empty: none.
	// Until it is gone, no guest is built whose partition would have its name.
	Removing string `json:"removed_partition_uuid,omitempty"`
}

// abandonedFor is the time for which the driver looks for an abandoned partition. No server executes a request so late.
const abandonedFor = 24 * time.Hour

// abandonedDir is the directory with the files of abandoned partitions. Hypervisor.mu protects it.
type abandonedDir string

// add records durably that the partition of a record must be removed when it appears.
func (d abandonedDir) add(r record) error {
	return d.write(abandoned{Version: recordVersion, System: r.System, Name: r.Name, Guest: r.Guest.ID,
		Since: time.Now().UTC()})
}

// write writes the file of an abandoned partition durably.
func (d abandonedDir) write(one abandoned) error {
	data, err := json.MarshalIndent(one, "", "  ")
	if err == nil {
		err = os.MkdirAll(string(d), 0o700)
	}
	if err == nil {
		err = datafile.Replace(filepath.Join(string(d), one.Name+".json"), data)
	}
	if err != nil {
		return fault.New(fault.Unavailable, "the unanswered creation of partition %s cannot be "+
			"recorded: %w", one.Name, err)
	}
	return nil
}

// read returns the abandoned partitions, and a remark for each file that cannot be read. It removes files
// that have become too old, but none that cannot be read.
func (d abandonedDir) read() (list []abandoned, damaged hypervisor.Remarks, err error) {
	entries, err := os.ReadDir(string(d))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil, nil
	}
	if err != nil {
		return nil, nil, fault.Wrap(fault.Unavailable, err)
	}
	for _, entry := range entries {
		if filepath.Ext(entry.Name()) != ".json" {
			continue
		}
		path := filepath.Join(string(d), entry.Name())
		one, wrong := readAbandonedFile(path)
		if wrong != nil {
			text := fmt.Sprintf("the record %s of a partition that may be created late cannot be read: %s; if a partition %s "+
				"exists and no server has it, delete it; then remove the file", path, wrong,
				strings.TrimSuffix(entry.Name(), ".json"))
			damaged = append(damaged, hypervisor.Remark{Subject: path, Text: text})
			continue
		}
		if time.Since(one.Since) > abandonedFor {
			err = errors.Join(err, os.Remove(path))
			continue
		}
		list = append(list, one)
	}
	return list, damaged, err
}

func readAbandonedFile(path string) (one abandoned, err error) {
	data, err := os.ReadFile(path)
	if err == nil {
		err = json.Unmarshal(data, &one)
	}
	if err == nil && one.Name+".json" != filepath.Base(path) {
		err = errors.New("it is that of another partition")
	}
	return one, err
}

// checkRemoval returns Unavailable while the server deletes a partition of an earlier attempt that has the mark of a
// name.
func (d abandonedDir) checkRemoval(name string) error {
	list, _, err := d.read()
	if err != nil {
		return err
	}
	for _, one := range list {
		if one.Removing != "" && one.Name[max(0, len(one.Name)-markDigits):] == name[len(name)-markDigits:] {
			return fault.New(fault.Unavailable, "the server is deleting the partition %s (%s) of an earlier "+
				"attempt, which it created late; the guest is built when it is gone", one.Name, one.Removing)
		}
	}
	return nil
}

// has reports whether a partition was abandoned.
func (d abandonedDir) has(name string) (bool, error) {
	list, _, err := d.read()
	return slices.ContainsFunc(list, func(one abandoned) bool { return one.Name == name }), err
}
