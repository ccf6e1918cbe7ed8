// Package cleaner runs the operator's own programs for the agent: so far the one that makes a device for one-time use as new
// ([berth] device_clean_command).
package cleaner

import (
	"bytes"
	"context"
	"errors"
	"os/exec"
	"strings"
	"time"

	"github.com/openberth/berth/fault"
	"github.com/openberth/berth/pci"
)

// defaultLimit is how long a program may take.
const defaultLimit = 30 * time.Minute

// Cleaner is a program that cleans a device. It is given the device's address as its one argument, such as 0000:17:00.0, and says by
// its exit status 0 that the device is as new. It may be run again for a device that it has cleaned.
type Cleaner struct {
	Path  string
	Limit time.Duration // 0: half an hour
}

// Clean runs the program. Internal: it could not be run, failed, or took too long; the sentence has the last line that it wrote.
// Unavailable: ctx ended.
func (c Cleaner) Clean(ctx context.Context, at pci.Address) error {
	const op = "cleaner.Clean"
	limit := c.Limit
	if limit <= 0 {
		limit = defaultLimit
	}
	limited, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	said := &tail{most: 4096}
	cmd := exec.CommandContext(limited, c.Path, at.String())
	cmd.Stdout, cmd.Stderr = said, said
	cmd.WaitDelay = 5 * time.Second // for children that keep its output open
	err := cmd.Run()
	var exit *exec.ExitError
	switch {
	case err == nil:
		return nil
	case ctx.Err() != nil:
		return fault.New(fault.Unavailable, op, "%s was interrupted", c.Path)
	case limited.Err() != nil:
		return fault.New(fault.Internal, op, "%s took longer than %s", c.Path, limit)
	case errors.As(err, &exit):
		return fault.New(fault.Internal, op, "%s ended with %s: %s", c.Path, exit, said.last())
	}
	return fault.New(fault.Internal, op, "cannot run [berth] device_clean_command: %w", err)
}

// tail keeps the end of what is written to it.
type tail struct {
	data []byte
	most int
}

// Write never fails.
func (t *tail) Write(p []byte) (int, error) {
	t.data = append(t.data, p...)
	if over := len(t.data) - t.most; over > 0 {
		t.data = append(t.data[:0], t.data[over:]...)
	}
	return len(p), nil
}

// last is the last line that says something.
func (t *tail) last() string {
	text := string(bytes.TrimSpace(t.data))
	if text == "" {
		return "it said nothing"
	}
	return strings.TrimSpace(text[strings.LastIndexByte(text, '\n')+1:])
}
