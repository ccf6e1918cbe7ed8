package rpc

import (
	"context"
	"fmt"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/openberth/berth/fault"
	"github.com/openberth/berth/internal/libvirtd"
	"github.com/openberth/berth/internal/testenv"
)

// bios is a domain that prints the messages of its firmware to its serial console, and then finds nothing to boot.
const bios = `<domain type='qemu'>
  <name>%s</name>
  <uuid>%s</uuid>
  <memory unit='MiB'>64</memory>
  <vcpu>1</vcpu>
  <os><type arch='x86_64' machine='q35'>hvm</type><bios useserial='yes' rebootTimeout='-1'/></os>
  <devices>
    <serial type='pty'><target port='0'/></serial>
    <console type='pty'><target type='serial' port='0'/></console>
  </devices>
</domain>`

// TestLifeOfADomain defines, starts, watches and removes a domain of a real daemon.
func TestLifeOfADomain(t *testing.T) {
	daemon := libvirtd.Start(t)
	ctx, cancel := context.WithTimeout(t.Context(), testenv.Patience)
	defer cancel()
	c := dial(t, daemon)
	if v, err := c.LibVersion(ctx); err != nil || !strings.Contains(v, ".") {
		t.Errorf("version %q: %v", v, err)
	}
	if n, err := c.Node(ctx); err != nil || n.CPUs < 1 || n.MemoryKB < 1<<20 {
		t.Errorf("%+v: %v", n, err)
	}
	if xml, err := c.Capabilities(ctx); err != nil || !strings.Contains(xml, "<capabilities>") {
		t.Errorf("%q: %v", xml, err)
	}
	if xml, err := c.DomainCapabilities(ctx, "x86_64", "q35", "qemu"); err != nil || !strings.Contains(xml, "q35") {
		t.Errorf("%q: %v", xml, err)
	}
	id := uuid.New()
	if _, err := c.Lookup(ctx, id); !fault.Is(err, fault.NotFound) {
		t.Errorf("a domain that does not exist: %v", err)
	}
	d, err := c.Define(ctx, fmt.Sprintf(bios, "guest", id))
	if err != nil {
		t.Fatal(err)
	}
	wantEvent(t, c, id, EventDefined)
	if found, err := c.Lookup(ctx, id); err != nil || found != d || d.ID != -1 {
		t.Errorf("%+v, defined %+v: %v", found, d, err)
	}
	running, err := c.Start(ctx, d)
	if err != nil {
		t.Fatal(err)
	}
	wantEvent(t, c, id, EventStarted)
	if s, _, err := c.State(ctx, running); err != nil || s != Running {
		t.Errorf("state %d: %v", s, err)
	}
	readConsole(t, c, running)
	if list, err := c.Domains(ctx); err != nil || len(list) != 1 || list[0] != running {
		t.Errorf("%+v: %v", list, err)
	}
	if err := c.Destroy(ctx, running); err != nil {
		t.Error(err)
	}
	wantEvent(t, c, id, EventStopped)
	if s, _, err := c.State(ctx, d); err != nil || s != Shutoff {
		t.Errorf("state %d: %v", s, err)
	}
	if err := c.Undefine(ctx, d); err != nil {
		t.Error(err)
	}
	if err := c.Undefine(ctx, d); !fault.Is(err, fault.NotFound) {
		t.Errorf("undefined twice: %v", err)
	}
	if list, err := c.Domains(ctx); err != nil || len(list) != 0 {
		t.Errorf("%+v: %v", list, err)
	}
}

// TestXMLIsValidated checks that an element that libvirt does not know is refused and not ignored.
func TestXMLIsValidated(t *testing.T) {
	c := dial(t, libvirtd.Start(t))
	xml := strings.Replace(fmt.Sprintf(bios, "guest", uuid.New()), "<vcpu>", "<unknown/><vcpu>", 1)
	if _, err := c.Define(t.Context(), xml); err == nil || !strings.Contains(err.Error(), "unknown") {
		t.Errorf("got %v", err)
	}
}

// TestDaemonEnds kills the daemon: calls return Unavailable, the events end, and after a restart a new connection sees
// the running domain.
func TestDaemonEnds(t *testing.T) {
	daemon := libvirtd.Start(t)
	c := dial(t, daemon)
	id := uuid.New()
	d, err := c.Define(t.Context(), fmt.Sprintf(bios, "guest", id))
	if err != nil {
		t.Fatal(err)
	}
	if d, err = c.Start(t.Context(), d); err != nil {
		t.Fatal(err)
	}
	daemon.Stop(t)
	for range c.Events() {
	}
	if _, err := c.Domains(t.Context()); !fault.Is(err, fault.Unavailable) {
		t.Errorf("after the end: %v", err)
	}
	if _, err := Dial(t.Context(), daemon.Socket, "qemu:///system", 0); !fault.Is(err, fault.Unavailable) {
		t.Errorf("a new connection without a daemon: %v", err)
	}
	daemon.Resume(t)
	c = dial(t, daemon)
	if found, err := c.Lookup(t.Context(), id); err != nil || found != d {
		t.Errorf("after the restart: %+v, before %+v: %v", found, d, err)
	}
	if s, _, err := c.State(t.Context(), d); err != nil || s != Running {
		t.Errorf("after the restart: state %d: %v", s, err)
	}
}

func dial(t *testing.T, d *libvirtd.Daemon) *Client {
	t.Helper()
	c, err := Dial(t.Context(), d.Socket, "qemu:///system", 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}

// wantEvent waits for an event of a domain, and skips others.
func wantEvent(t *testing.T, c *Client, id uuid.UUID, kind EventKind) {
	t.Helper()
	for {
		select {
		case e, open := <-c.Events():
			if !open {
				t.Fatal("the events have ended")
			}
			if e.Domain.UUID == id && e.Kind == kind {
				return
			}
		case <-time.After(testenv.Patience):
			t.Fatalf("no event %d", kind)
		}
	}
}

// readConsole reads the console until the firmware has found nothing to boot.
func readConsole(t *testing.T, c *Client, of Domain) {
	t.Helper()
	s, err := c.Console(t.Context(), of, false)
	if err != nil {
		t.Fatal(err)
	}
	stop := time.AfterFunc(testenv.Patience, func() { s.Close() })
	defer stop.Stop()
	var text strings.Builder
	buffer := make([]byte, 4096)
	for !strings.Contains(text.String(), "No bootable device") {
		n, err := s.Read(buffer)
		text.Write(buffer[:n])
		if err != nil {
			t.Fatalf("%v after %q", err, &text)
		}
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	if _, err := s.Read(buffer); err != io.ErrClosedPipe {
		t.Errorf("read after Close: %v", err)
	}
	for range 20 { // each is free when Close returns
		if s, err = c.Console(t.Context(), of, false); err != nil {
			t.Fatal(err)
		}
		if _, err := s.Write([]byte("x")); err != nil {
			t.Error(err)
		}
		s.Close()
	}
}
