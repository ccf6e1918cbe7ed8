package powervm

import (
	"context"
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"time"

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
}

// abandonedFor is the time for which the driver looks for an abandoned partition. No server executes a request so late.
const abandonedFor = 24 * time.Hour

func (h *Hypervisor) abandonedDir() string { return filepath.Join(h.options.Dir, "abandoned") }

// abandon records durably that the partition of a record must be removed when it appears. h.mu is held.
func (h *Hypervisor) abandon(r record) error {
	data, err := json.MarshalIndent(abandoned{Version: recordVersion, System: r.System, Name: r.Name, Guest: r.guest.ID,
		Since: time.Now().UTC()}, "", "  ")
	if err == nil {
		err = os.MkdirAll(h.abandonedDir(), 0o700)
	}
	if err == nil {
		err = datafile.Replace(filepath.Join(h.abandonedDir(), r.Name+".json"), data)
	}
	if err != nil {
		return fault.New(fault.Unavailable, "powervm.Destroy",
			"the unanswered creation of partition %s cannot be recorded: %w", r.Name, err)
	}
	return nil
}

// readAbandoned returns the abandoned partitions by file, and removes those that have become too old. A file that
// cannot be read is left alone.
func (h *Hypervisor) readAbandoned() (map[string]abandoned, error) {
	entries, err := os.ReadDir(h.abandonedDir())
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	out := map[string]abandoned{}
	for _, entry := range entries {
		if filepath.Ext(entry.Name()) != ".json" {
			continue
		}
		path := filepath.Join(h.abandonedDir(), entry.Name())
		data, wrong := os.ReadFile(path)
		var one abandoned
		if wrong == nil {
			wrong = json.Unmarshal(data, &one)
		}
		if wrong != nil || one.Name == "" {
			err = errors.Join(err, wrong)
			continue
		}
		if time.Since(one.Since) > abandonedFor {
			err = errors.Join(err, os.Remove(path))
			continue
		}
		out[path] = one
	}
	return out, err
}

// Maintain removes the partitions that the server creates after the driver has given them up, until ctx ends.
func (h *Hypervisor) Maintain(ctx context.Context) {
	ticker := time.NewTicker(h.options.Sweep)
	defer ticker.Stop()
	for {
		if err := h.sweep(ctx); err != nil && ctx.Err() == nil {
			h.options.Log.Warn("search for abandoned partitions failed, will retry", "error", err)
		}
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
	}
}

// sweep removes the abandoned partitions that the server has created since. The partition of a record is never one of
// them: a later guest of the same server has adopted it.
func (h *Hypervisor) sweep(ctx context.Context) error {
	list, err := h.readAbandoned()
	if len(list) == 0 {
		return err
	}
	records, err := h.locked()
	if err != nil {
		return err
	}
	v, err := h.look(ctx, records)
	if err != nil {
		return err
	}
	for path, one := range list {
		p, exists := v.byName[one.Name]
		known := slices.ContainsFunc(records, func(r record) bool { return r.Name == one.Name })
		if !exists || known || one.System != v.system.UUID {
			continue
		}
		h.options.Log.Warn("removing a partition that was created late", "partition", one.Name, "guest", one.Guest)
		if err := h.setPower(ctx, p, true); err != nil {
			return err
		}
		if err := h.api.Delete(ctx, partitionPath(p.UUID)); err != nil {
			return err
		}
		if err := os.Remove(path); err != nil {
			return fault.New(fault.Unavailable, "powervm.Maintain", "%w", err)
		}
	}
	return nil
}
