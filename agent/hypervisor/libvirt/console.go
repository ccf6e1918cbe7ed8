package libvirt

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"os"

	"github.com/openberth/berth/agent/hypervisor/libvirt/rpc"
	"github.com/openberth/berth/fault"
)

// Console returns the last bytes that a guest has printed to its serial console, also before it was started again.
func (d *Driver) Console(ctx context.Context, id string, bytes int) ([]byte, error) {
	_, found, there, err := locate(ctx, d, id)
	if err != nil {
		return nil, fault.Wrap("", err)
	}
	if !there {
		return nil, fault.New(fault.NotFound, "there is no guest %s", id)
	}
	f, err := os.Open(d.filesOf(found.UUID, found.guest).ConsoleLog)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil // it was never started
	}
	if err != nil {
		return nil, fault.Wrap(fault.Unavailable, err)
	}
	defer f.Close()
	status, err := f.Stat()
	if err != nil {
		return nil, fault.Wrap(fault.Unavailable, err)
	}
	from := max(0, status.Size()-int64(bytes))
	text, err := io.ReadAll(io.NewSectionReader(f, from, int64(bytes)))
	return text, fault.Wrap(fault.Unavailable, err)
}

// runningGuest returns a running guest, with the connection on which it was found. NotFound: there is no such guest.
// Conflict: it does not run.
func runningGuest(ctx context.Context, d *Driver, id string) (*rpc.Client, domain, error) {
	c, found, there, err := locate(ctx, d, id)
	if err != nil {
		return nil, domain{}, fault.Wrap("", err)
	}
	switch {
	case !there:
		return nil, found, fault.New(fault.NotFound, "there is no guest %s", id)
	case !found.running():
		return nil, found, fault.New(fault.Conflict, "the guest %s does not run; start the server first", id)
	}
	return c, found, nil
}

// OpenConsole opens the serial console of a running guest.
func (d *Driver) OpenConsole(ctx context.Context, id string) (io.ReadWriteCloser, error) {
	c, found, err := runningGuest(ctx, d, id)
	if err != nil {
		return nil, err
	}
	stream, err := c.Console(ctx, found.Domain, false)
	if known, is := errors.AsType[*rpc.Error](err); is {
		return nil, fault.New(fault.Conflict, "the console of the guest %s cannot be opened: %w", id, known)
	}
	if err != nil {
		return nil, fault.Wrap("", err)
	}
	return stream, nil
}
