package loop

import (
	"context"
	"errors"
	"io"

	"github.com/openberth/berth/agent/hypervisor"
	"github.com/openberth/berth/api/host"
	"github.com/openberth/berth/fault"
)

// serveConsole connects the console of a guest with a user's session, until one of them ends or the context does. The
// agent opens both connections: no service connects to an agent.
//
//	user ──▶ compute ──▶ ConsoleInput ──▶ guest
//	user ◀── compute ◀── SendConsole  ◀── guest
func (a *Agent) serveConsole(ctx context.Context, r host.ConsoleRequest) {
	console, err := a.openConsole(ctx, r)
	if err != nil {
		ctx, cancel := context.WithTimeout(ctx, callTime)
		defer cancel()
		refused := host.ConsoleOutput{Refused: fault.TextOf(err)}
		if err := a.o.Compute.PutConsole(ctx, a.o.Host, r.ID, refused); err != nil && ctx.Err() == nil {
			a.log.Warn("console not refused", "guest", r.Guest, "error", err)
		}
		return
	}
	ctx, cancel := context.WithCancel(ctx)
	done := make(chan struct{})
	go func() {
		defer close(done)
		defer cancel()
		a.sendConsole(ctx, r, console)
	}()
	err = a.o.Compute.ConsoleInput(ctx, a.o.Host, r.ID, func(data []byte) error {
		_, err := console.Write(data)
		return err
	})
	if err != nil && ctx.Err() == nil && !fault.Is(err, fault.NotFound) {
		a.log.Warn("console ended", "guest", r.Guest, "error", err)
	}
	cancel()
	_ = console.Close() // ends the read of sendConsole; an error means that the guest has ended
	<-done
}

// openConsole opens the serial console of a guest, or its display.
func (a *Agent) openConsole(ctx context.Context, r host.ConsoleRequest) (io.ReadWriteCloser, error) {
	if r.VNC {
		driver, ok := a.o.Hypervisor.(hypervisor.Displays)
		if !ok {
			return nil, fault.New(fault.Conflict, "the guests of the host have no displays")
		}
		ctx, cancel := context.WithTimeout(ctx, callTime)
		defer cancel()
		return driver.OpenDisplay(ctx, r.Guest)
	}
	driver, ok := a.o.Hypervisor.(hypervisor.InteractiveConsoles)
	if !ok {
		return nil, fault.New(fault.Conflict, "the hypervisor of the host has no interactive consoles")
	}
	ctx, cancel := context.WithTimeout(ctx, callTime)
	defer cancel()
	return driver.OpenConsole(ctx, r.Guest)
}

// sendConsole sends what a guest prints, until the console or the session ends.
func (a *Agent) sendConsole(ctx context.Context, r host.ConsoleRequest, console io.Reader) {
	buffer := make([]byte, host.MaxConsoleData)
	for {
		n, err := console.Read(buffer)
		if n > 0 {
			if a.o.Compute.SendConsole(ctx, a.o.Host, r.ID, host.ConsoleData{Data: buffer[:n]}) != nil {
				return // the session has ended, or compute does not answer
			}
		}
		if err != nil && ctx.Err() == nil {
			why := "the guest has ended"
			if !errors.Is(err, io.EOF) {
				why = fault.TextOf(err)
			}
			_ = a.o.Compute.SendConsole(ctx, a.o.Host, r.ID, host.ConsoleData{Closed: why}) // compute also sees the end
		}
		if err != nil {
			return
		}
	}
}
