package libvirt

import (
	"context"
	"errors"
	"time"

	"github.com/openberth/berth/agent/hypervisor/libvirt/rpc"
	"github.com/openberth/berth/backoff"
	"github.com/openberth/berth/fault"
)

// settler finds out how the migration of a domain has ended: the guest has departed, or it is here. Between the end of
// the copy and the end of the migration a guest is paused here, and only the destination knows whether it runs there.
// So the destination is asked before the guest continues here or is started again.
type settler struct {
	d      *Driver
	domain domain
}

// settle records how the migration of the domain has ended, and lets the guest continue if it is here. The migration
// must not be in progress. The fault is Unavailable as long as it is not known how it has ended.
func (s *settler) settle(ctx context.Context) error {
	c, _, err := s.d.connect(ctx)
	if err != nil {
		return err
	}
	state, reason, err := c.State(ctx, s.domain.Domain)
	if err != nil {
		return fault.Wrap("", err)
	}
	departed := state == rpc.Shutoff && reason == rpc.EndedByMigration
	if !departed && state != rpc.Running {
		if departed, err = s.hasArrived(ctx); fault.Is(err, fault.Conflict) { // it says what to do
			return fault.New(fault.Unavailable, "whether the guest %s continues here is not known: %w", s.domain.guest.ID, err)
		}
		if err != nil {
			return fault.New(fault.Unavailable, "whether the guest %s runs on host %s is not known: %w; start libvirt "+
				"there; if that host will not return, run `virsh resume %[4]s` or `virsh start %[4]s` here", s.domain.guest.ID,
				s.domain.migratesTo(), err, s.domain.Name)
		}
	}
	switch {
	case departed && state == rpc.Paused:
		err = end(ctx, c, s.domain.Domain)
	case !departed && state == rpc.Paused:
		err = c.Resume(ctx, s.domain.Domain)
	}
	host := s.domain.migratesTo()
	if err == nil {
		err = s.store(ctx, c, "", departed)
	}
	if err == nil && state == rpc.Running { // it may have been about to be paused
		if state, _, err = c.State(ctx, s.domain.Domain); err == nil && state == rpc.Paused {
			err = errors.Join(s.store(ctx, c, host, false), fault.New(fault.Unavailable, "libvirt has paused the guest %s",
				s.domain.guest.ID))
		}
	}
	if known, is := errors.AsType[*rpc.Error](err); is && known.Code == rpc.ErrOperationTimeout {
		return fault.New(fault.Unavailable, "libvirt still migrates the guest %s: %w", s.domain.guest.ID, known)
	}
	return fault.Wrap("", err)
}

// store records to which host a migration of the domain has begun, and whether its guest has departed.
func (s *settler) store(ctx context.Context, c *rpc.Client, host string, departed bool) error {
	current, err := c.Lookup(ctx, s.domain.UUID)
	if err != nil {
		return err
	}
	s.domain.Domain, s.domain.paused = current, false
	stored := s.domain.xml.Guest
	stored.MigratesTo, stored.Departed = host, departed
	if err := s.d.storeMetadata(ctx, c, s.domain, stored); err != nil {
		return err
	}
	s.domain.xml.Guest = stored
	s.domain.guest.Departed, s.domain.guest.Stopped = departed, !s.domain.running() && !departed
	return nil
}

// await calls settle until it is known how the migration has ended, and returns the domain. After ctx has ended, it
// waits for a minute.
func (s *settler) await(ctx context.Context) (domain, error) {
	hold, cancel := context.WithCancel(context.WithoutCancel(ctx))
	defer cancel()
	defer context.AfterFunc(ctx, func() { time.AfterFunc(time.Minute, cancel) })()
	for failures := 1; ; failures++ {
		err := s.settle(hold)
		if err == nil || !fault.Is(err, fault.Unavailable) {
			return s.domain, err
		}
		s.d.o.Log.Warn("end of a live migration not known, will retry", "guest", s.domain.guest.ID, "error", err)
		if backoff.Sleep(hold, redial.Wait(failures)) != nil {
			return s.domain, err
		}
	}
}

// hasArrived reports whether the guest has arrived at the host to which it migrates: the definition of the domain there
// is that of the migration, not the prepared one.
func (s *settler) hasArrived(ctx context.Context) (bool, error) {
	uri, err := s.d.o.uriOf(ctx, s.domain.migratesTo())
	if err != nil {
		return false, err
	}
	there, err := rpc.DialURI(ctx, uri, s.d.o.CallTime)
	if err != nil {
		return false, err
	}
	defer there.Close()
	drain(there)
	found, err := there.Lookup(ctx, s.domain.UUID)
	var works bool
	if err == nil { // before the definition: that of a job that ends afterwards is still incoming
		works, err = rpc.HasJob(ctx, there, found)
	}
	var text string
	if err == nil {
		text, err = there.XML(ctx, found, rpc.Persistent)
	}
	if fault.Is(err, fault.NotFound) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	guest, unread, err := guestOf(ctx, there, found, text)
	switch {
	case err != nil:
	case guest.ID == "" && unread != nil:
		err = unread
	case guest.Incoming && works:
		err = errors.New("it still receives the guest")
	case guest.Incoming && found.ID >= 0:
		return false, endReceiver(ctx, there, found)
	}
	return err == nil && guest.ID != "" && !guest.Incoming, err
}

// endReceiver ends a domain at the destination that received the guest and has no job, so that the guest can continue
// here. The fault is Conflict if a person has continued the domain.
//
// libvirt ends such a domain itself when the connection of the migration ends. If it is killed after it has ended its
// job and before it has ended QEMU, it leaves the paused domain alone when it returns (qemuProcessAutoDestroy). Without
// a job no migration can arrive in the domain any more, and its guest has never run there: libvirt replaces the
// prepared definition before it lets the guest continue.
func endReceiver(ctx context.Context, there *rpc.Client, of rpc.Domain) error {
	state, reason, err := there.State(ctx, of)
	if err != nil {
		return err
	}
	if state != rpc.Paused || reason != rpc.PausedByMigration {
		return fault.New(fault.Conflict, "it was continued at the destination, though its migration has not "+
			"ended; end it there with `virsh destroy %s`, and it continues here", of.Name)
	}
	return end(ctx, there, of)
}

// settle records how an earlier migration of the guest has ended, and continues only with a guest that is here.
func (b *builder) settle(ctx context.Context) error {
	if b.d.migrating.has(b.domain.UUID) {
		return fault.New(fault.Unavailable, "the guest %s is being migrated", b.guest.ID)
	}
	s := &settler{b.d, b.domain}
	err := s.settle(ctx)
	if b.domain = s.domain; err == nil && b.domain.guest.Departed {
		return fault.New(fault.Unavailable, "the guest %s has departed, and the host lists its guests again", b.guest.ID)
	}
	return err
}
