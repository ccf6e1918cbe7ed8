package app

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/openberth/berth/compute/store"
	"github.com/openberth/berth/compute/store/lease"
)

// releaseTimeout is how long compute tries to release its database when it stops. If that fails, the next process may
// have to wait a few seconds.
const releaseTimeout = 2 * time.Second

// leaseKeeper renews compute's lease of its database while compute runs.
type leaseKeeper struct {
	lost       chan struct{} // closed when another process has acquired the lease
	lease      *lease.Lease
	log        *slog.Logger
	releaseCtx context.Context // for releasing the lease
	stop       context.CancelFunc
	work       sync.WaitGroup
	err        error // of lease.Keep
}

// acquireLease acquires the lease of compute's database for this process and renews it until release. It calls onLost
// at once if another process acquires it. terms has its times.
func acquireLease(ctx context.Context, st *store.Store, terms lease.Options, onLost func(),
	log *slog.Logger) (*leaseKeeper, error) {
	terms.Dead, terms.Alive = hasEnded, isRunning
	terms.Waiting = func(last lease.Owner, longest time.Duration) {
		log.Info("compute's database not released by its last process; waiting to see whether that process is alive",
			"process", last.String(), "longest", longest)
	}
	lease, err := st.Hold(ctx, thisProcess(), terms)
	if err != nil {
		return nil, err
	}
	lasting := context.WithoutCancel(ctx)
	keeping, stop := context.WithCancel(lasting)
	h := &leaseKeeper{lost: make(chan struct{}), lease: lease, log: log, releaseCtx: lasting, stop: stop}
	h.work.Go(func() {
		if h.err = lease.Keep(keeping); h.err != nil {
			log.Error("compute's database lost to another process", "error", h.err)
			onLost()
			close(h.lost)
		}
	})
	return h, nil
}

// release stops renewing and releases the lease. It returns an error if the lease was lost before.
func (h *leaseKeeper) release() error {
	h.stop()
	h.work.Wait()
	if h.err != nil {
		return h.err
	}
	ctx, cancel := context.WithTimeout(h.releaseCtx, releaseTimeout)
	defer cancel()
	if err := h.lease.Release(ctx); err != nil {
		h.log.Warn("cannot release compute's database; the next process may have to wait a few seconds for it", "error", err)
	}
	return nil
}
