// Package cleaner runs the operator's program that cleans a device for one-time use ([berth] device_clean_command).
package cleaner

import (
	"bytes"
	"context"
	"errors"
	"os/exec"
	"strings"
	"time"

	"github.com/openberth/berth/agent/device"
	"github.com/openberth/berth/fault"
)

// defaultLimit is the default timeout of a program.
const defaultLimit = 30 * time.Minute

// Cleaner is a program that cleans a device. Its one argument is the device's ID, such as the PCI address 0000:17:00.0;
// exit status 0 means that the device is clean. It may be run again for a device that it has cleaned.
type Cleaner struct {
	Path  string
	Limit time.Duration // 0: half an hour
}

// Clean runs the program. Internal: it could not be run, failed, or took too long; the message has the last line of
// its output. Unavailable: ctx ended.
func (c Cleaner) Clean(ctx context.Context, at device.ID) error {
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
		return fault.New(fault.Unavailable, "%s was interrupted", c.Path)
	case limited.Err() != nil:
		return fault.New(fault.Internal, "%s took longer than %s", c.Path, limit)
	case errors.As(err, &exit):
		return fault.New(fault.Internal, "%s ended with %s: %s", c.Path, exit, said.last())
	}
	return fault.New(fault.Internal, "cannot run [berth] device_clean_command: %w", err)
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

// last returns the last line that is not empty.
func (t *tail) last() string {
	text := string(bytes.TrimSpace(t.data))
	if text == "" {
		return "no output"
	}
	return strings.TrimSpace(text[strings.LastIndexByte(text, '\n')+1:])
}
