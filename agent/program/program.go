// Package program runs programs of the operator for devices: the one that cleans a device ([berth]
// device_clean_command), the one that checks it ([berth] device_health_command), and the one that prepares devices that
// belong together before a guest starts with them ([berth] device_start_command).
package program

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

// Program is a program. Exit status 0 means success. It may be run again for a device.
type Program struct {
	Option string // that names it, for messages
	Path   string
	Limit  time.Duration // 0: half an hour
}

// Prepare is Run with the property, the value and the IDs of a set of devices as arguments.
func (p Program) Prepare(ctx context.Context, set device.MatchedSet) error {
	args := []string{set.Property, set.Value}
	for _, id := range set.Devices {
		args = append(args, id.String())
	}
	return p.run(ctx, args...)
}

// Run runs the program with the ID of a device as its argument, such as the PCI address 0000:17:00.0. Internal: it
// failed, or took too long; the message has the last line of its output. Invalid: it could not be run. Unavailable: ctx
// ended.
func (p Program) Run(ctx context.Context, at device.ID) error { return p.run(ctx, at.String()) }

func (p Program) run(ctx context.Context, args ...string) error {
	limit := p.Limit
	if limit <= 0 {
		limit = defaultLimit
	}
	limited, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	said := &tail{most: 4096}
	cmd := exec.CommandContext(limited, p.Path, args...)
	cmd.Stdout, cmd.Stderr = said, said
	cmd.WaitDelay = 5 * time.Second // for children that keep its output open
	err := cmd.Run()
	var exit *exec.ExitError
	switch {
	case err == nil:
		return nil
	case ctx.Err() != nil:
		return fault.New(fault.Unavailable, "%s was interrupted", p.Path)
	case limited.Err() != nil:
		return fault.New(fault.Internal, "%s took longer than %s", p.Path, limit)
	case errors.As(err, &exit):
		return fault.New(fault.Internal, "%s ended with %s: %s", p.Path, exit, said.last())
	}
	return fault.New(fault.Invalid, "cannot run %s: %w", p.Option, err)
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
