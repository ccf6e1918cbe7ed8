package loop

import (
	"context"
	"time"

	"github.com/openberth/berth/agent/reconcile/state"
	"github.com/openberth/berth/fault"
)

// A hypervisor that does not answer is reported within Times.HypervisorCheck and checkTime.
const (
	checkTime   = 5 * time.Second // limit of one check
	otherReason = time.Minute     // between two results that differ only in the reason
)

// checkHypervisor checks every few seconds whether the hypervisor answers and can build guests, and delivers the result
// when it changes, until ctx ends. A check that does not return in time has failed; another one begins when it returns,
// so that a hypervisor that hangs has one check at a time.
func (a *Agent) checkHypervisor(ctx context.Context) {
	last, at := "", a.o.Now()
	var pending chan error
	ticker := time.NewTicker(a.o.HypervisorCheck)
	defer ticker.Stop()
	for {
		var err error
		if pending, err = a.checkOnce(ctx, pending); ctx.Err() != nil {
			return
		}
		now := ""
		if err != nil {
			now = fault.TextOf(err)
		}
		if (now == "") != (last == "") || now != last && a.o.Now().Sub(at) >= otherReason {
			last, at = now, a.o.Now()
			a.deliver(ctx, state.HypervisorChecked{Err: err})
		}
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
	}
}

// checkOnce returns the result of one check, or that of the pending one if it returns now. A check that has not
// returned is returned as pending.
func (a *Agent) checkOnce(ctx context.Context, pending chan error) (still chan error, err error) {
	if pending == nil {
		pending = make(chan error, 1)
		go func(result chan<- error) {
			ctx, cancel := context.WithTimeout(ctx, checkTime)
			defer cancel()
			result <- a.o.Hypervisor.Check(ctx)
		}(pending)
	}
	limit := time.NewTimer(checkTime)
	defer limit.Stop()
	select {
	case err := <-pending:
		return nil, err
	case <-ctx.Done():
		return pending, nil
	case <-limit.C:
		return pending, fault.New(fault.Unavailable, "it has not answered a check within %s; it is "+
			"checked again when it answers", checkTime)
	}
}
