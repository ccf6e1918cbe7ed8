package loop

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/openberth/berth/agent/device"
	"github.com/openberth/berth/agent/facts"
	"github.com/openberth/berth/agent/hypervisor"
	"github.com/openberth/berth/agent/journal"
	"github.com/openberth/berth/agent/reconcile/state"
	"github.com/openberth/berth/api/host"
	"github.com/openberth/berth/fault"
	"github.com/openberth/berth/resource"
)

// callTime is the timeout of a request to compute that is not a stream.
const callTime = 30 * time.Second

// begin performs an effect: at once if it ends at once, otherwise in a goroutine of running that delivers its event.
func (a *Agent) begin(ctx context.Context, j *journal.Journal, e state.Effect, running *sync.WaitGroup) {
	switch e := e.(type) {
	case state.Log:
		if e.Warn {
			a.log.Warn(e.Message, e.Attrs...)
		} else {
			a.log.Info(e.Message, e.Attrs...)
		}
	case state.Cancel:
		if cancel := a.cancels[e.Work]; cancel != nil {
			cancel()
		}
	case state.Force:
		if force := a.forces[e.Work]; force != nil {
			close(force)
			delete(a.forces, e.Work)
		}
	case state.WriteJournal:
		running.Go(func() { a.deliver(ctx, state.Written{Err: j.Write(e.Entries...)}) })
	case state.Watch:
		running.Go(func() { a.deliver(ctx, state.StreamEnded{Err: a.watch(ctx, e.Request)}) })
	default:
		if work := state.WorkOf(e); work != "" {
			a.beginWork(ctx, work, e, running)
			return
		}
		running.Go(func() {
			if event := a.perform(ctx, e); event != nil { // each effect has an event
				a.deliver(ctx, event)
			}
		})
	}
}

// beginWork performs an effect of a work, until Cancel ends it.
func (a *Agent) beginWork(ctx context.Context, work string, e state.Effect, running *sync.WaitGroup) {
	own, cancel := context.WithCancel(ctx)
	a.cancels[work] = cancel
	if migrate, is := e.(state.Migrate); is {
		force := make(chan struct{})
		if migrate.Force {
			close(force)
		} else {
			a.forces[work] = force
		}
		migrate.To.Force = force
		e = migrate
	}
	running.Go(func() {
		done := a.performWork(own, e)
		done.Work = work
		cancel()
		a.deliver(ctx, done)
	})
}

// performWork performs an effect of a work and returns its result.
func (a *Agent) performWork(ctx context.Context, e state.Effect) (done state.WorkDone) {
	switch e := e.(type) {
	case state.ReadAllocation:
		done.Allocation, done.Err = a.o.Placement.Allocation(ctx, resource.ConsumerID(e.Work))
	case state.RemoveVFs:
		for _, pf := range e.PFs {
			if done.Err == nil {
				done.Err = setVFs(a.o.VFs, pf, 0)
			}
		}
	case state.ConfigureVFs:
		ctx, cancel := context.WithTimeout(ctx, callTime)
		defer cancel()
		done.Err = a.o.DataPlane.Configure(ctx, e.VFs)
	case state.ResetVFs:
		done.Err = a.o.DataPlane.Reset(ctx, e.Devices)
	case state.Build:
		if done.Err = prepare(ctx, a.o, e.Sets, e.Guest); done.Err == nil {
			done.Err = a.o.Hypervisor.Build(ctx, e.Guest)
		}
	case state.Receive:
		if done.Err = prepare(ctx, a.o, e.Sets, e.Guest); done.Err == nil {
			done.Err = a.o.Hypervisor.(hypervisor.Receiver).Receive(ctx, e.Guest)
		}
	case state.Forget:
		done.Err = a.o.Hypervisor.(hypervisor.Receiver).Forget(ctx, e.ID)
	case state.Rename:
		done.Err = a.o.Hypervisor.Rename(ctx, e.Was, e.ID, e.Server)
	case state.Migrate:
		done.Err = a.o.Hypervisor.Migrate(ctx, e.Work, e.To)
	case state.SettleMigration:
		done.Departed, done.Err = settleMigration(ctx, a.o.Hypervisor, e.ID)
	case state.Destroy:
		done.Err = a.o.Hypervisor.Destroy(ctx, e.ID)
	case state.Upload:
		done.Image, done.Err = upload(ctx, a.o.Hypervisor, e)
	case state.EndUpload:
		done.Err = a.o.Hypervisor.(hypervisor.Uploader).EndUpload(ctx, e.ID)
	case state.ListGuests:
		done.Guests, done.Err = a.o.Hypervisor.Guests(ctx)
	case state.ReportGuest:
		ctx, cancel := context.WithTimeout(ctx, callTime)
		defer cancel()
		done.Err = a.o.Compute.PutGuest(ctx, a.o.Host, e.ID, e.Guest)
	default:
		done.Err = fault.New(fault.Internal, "unknown effect %T", e)
	}
	return done
}

// settleMigration ends an interrupted migration of a guest, and reports whether it has departed.
func settleMigration(ctx context.Context, h hypervisor.Hypervisor, id string) (departed bool, err error) {
	if settler, needed := h.(hypervisor.MigrationSettler); needed {
		return settler.SettleMigration(ctx, id)
	}
	guests, err := h.Guests(ctx)
	i := slices.IndexFunc(guests, func(g hypervisor.Guest) bool { return g.ID == id })
	return i >= 0 && guests[i].Departed, fault.Wrap("", err)
}

// prepare prepares what a guest needs before it starts: sets of devices, and the networks of its ports.
func prepare(ctx context.Context, o Options, sets []device.MatchedSet, g hypervisor.Guest) error {
	for _, set := range sets {
		if err := o.Prepare.Prepare(ctx, set); err != nil {
			return fault.Wrap("", err)
		}
	}
	return prepareBridges(ctx, o.Bridges, g)
}

// prepareBridges makes the networks of the ports of a guest that is about to run. A guest without ports on bridges
// needs none.
func prepareBridges(ctx context.Context, by HostNetworks, g hypervisor.Guest) error {
	var ports []string
	for _, i := range g.Interfaces {
		if i.VIF == linuxBridge {
			ports = append(ports, i.Port)
		}
	}
	if by == nil || g.Stopped || len(ports) == 0 {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, bridgeTime)
	defer cancel()
	return fault.Wrap("", by.Prepare(ctx, ports))
}

// linuxBridge is the vif_type of ports that a bridge of the host connects.
const linuxBridge = "bridge"

// setVFs changes the number of VFs of a PF.
func setVFs(to VFSetter, pf device.ID, count int) error {
	if to == nil {
		return fault.New(fault.Conflict, "the VFs of %s cannot be changed: this host's source of facts only reads; "+
			"remove shapes from device_spec", pf)
	}
	return to.SetVFs(pf.Address(), count)
}

// upload performs an Upload.
func upload(ctx context.Context, h hypervisor.Hypervisor, e state.Upload) (hypervisor.ImageData, error) {
	uploader, able := h.(hypervisor.Uploader)
	if !able {
		return hypervisor.ImageData{}, fault.New(fault.Conflict, "the hypervisor of this host cannot upload disks")
	}
	return uploader.Upload(ctx, e.ID, e.To)
}

// imageCache returns the size of the copies of images on the host; nil: it is not known.
func imageCache(h hypervisor.Hypervisor) *host.ImageCache {
	driver, able := h.(hypervisor.ImageCacher)
	if !able {
		return nil
	}
	size, known := driver.ImageCache()
	if !known {
		return nil
	}
	return &host.ImageCache{Bytes: size.Bytes, Limit: size.Limit}
}

// perform performs an effect of no work and returns the event that ends it.
func (a *Agent) perform(ctx context.Context, e state.Effect) state.Event {
	switch e := e.(type) {
	case state.Admit:
		ctx, cancel := context.WithTimeout(ctx, callTime)
		defer cancel()
		return state.Admitted{Err: a.o.Compute.Admit(ctx, a.o.Host, e.Sender)}
	case state.ReportHost:
		ctx, cancel := context.WithTimeout(ctx, callTime)
		defer cancel()
		return state.HostReported{Err: a.o.Compute.PutReport(ctx, e.Report)}
	case state.SendAlive:
		ctx, cancel := context.WithTimeout(ctx, callTime)
		defer cancel()
		e.Alive.ImageCache = imageCache(a.o.Hypervisor)
		return state.AliveSent{Err: a.o.Compute.PutAlive(ctx, a.o.Host, e.Alive)}
	case state.CleanDevice:
		if a.o.Clean == nil {
			return state.CleanEnded{}
		}
		return state.CleanEnded{Err: a.o.Clean.Run(ctx, e.Device)}
	case state.CheckDevice:
		found, err := a.o.Health.Check(ctx, e.Device)
		return state.DeviceChecked{Err: err, Health: state.Health{Missing: found.Missing, Failed: found.Failed,
			Counted: found.Counted, Errors: journal.Errors{Fatal: found.Fatal, Nonfatal: found.Nonfatal}}}
	case state.RestoreVFs:
		return state.VFsRestored{PF: e.PF, Err: setVFs(a.o.VFs, e.PF, e.Count)}
	case state.WriteProvider:
		generation, err := a.tree().WriteProvider(ctx, e)
		return state.ProviderWritten{Generation: generation, Err: err}
	}
	return a.read(ctx, e)
}

// read performs an effect that only reads, and returns the event that ends it.
func (a *Agent) read(ctx context.Context, e state.Effect) state.Event {
	switch e := e.(type) {
	case state.Observe:
		o, err := a.observe(ctx, e)
		return state.Observed{Observation: o, Err: err}
	case state.ReadUses:
		uses, err := a.tree().ReadUses(ctx, e)
		return state.UsesRead{Uses: uses, Err: err}
	case state.ReadAllocations:
		allocations, err := a.tree().ReadAllocations(ctx, e.Consumers)
		return state.AllocationsRead{Allocations: allocations, Err: err}
	}
	return nil
}

// observe reads the host, its guests, and its tree in Placement.
func (a *Agent) observe(ctx context.Context, e state.Observe) (o state.Observation, err error) {
	if o.Machine, err = a.readFacts(ctx); err != nil {
		return o, err
	}
	if a.driverFailed.Load() {
		if err = a.startHypervisor(ctx); err != nil {
			return o, err
		}
	}
	if o.Guests, err = a.o.Hypervisor.Guests(ctx); err != nil {
		return o, fault.Wrap("", err)
	}
	if o.Capacity, err = a.o.Hypervisor.Capacity(ctx); err != nil {
		return o, fault.Wrap("", err)
	}
	return o, a.tree().Observe(ctx, e, &o)
}

// readFacts reads the host's hardware. It returns when ctx ends, also if the reading hangs, so that the agent can end.
func (a *Agent) readFacts(ctx context.Context) (facts.Facts, error) {
	type result struct {
		machine facts.Facts
		err     error
	}
	read := make(chan result, 1)
	go func() {
		machine, err := a.o.Facts.Read(a.o.Rules)
		read <- result{machine, err}
	}()
	select {
	case got := <-read:
		return got.machine, got.err
	case <-ctx.Done():
		return facts.Facts{}, fault.Wrap(fault.Unavailable, ctx.Err())
	}
}

// tree returns what performs the effects in Placement.
func (a *Agent) tree() Tree { return Tree{Placement: a.o.Placement, Host: a.o.Host, Kinds: a.o.Kinds} }

// watch reads one stream of assignments until it ends or three heartbeats are missing.
func (a *Agent) watch(ctx context.Context, request host.WatchRequest) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	silence := time.AfterFunc(3*host.Heartbeat, cancel)
	defer silence.Stop()
	answered := map[string]bool{}
	return a.o.Compute.Watch(ctx, request, func(l host.Assignments) error {
		a.answerConsoles(ctx, l.Consoles, answered)
		silence.Reset(3 * host.Heartbeat)
		a.deliver(ctx, state.Received{Assignments: l})
		return nil
	})
}

// deliver passes an event to serve, unless ctx ends before.
func (a *Agent) deliver(ctx context.Context, e state.Event) {
	select {
	case <-ctx.Done():
	case a.events <- e:
	}
}
