package app

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/openberth/berth/compute/store"
)

// giveBack is how long compute tries, at its end, to give its database back. When it fails, whoever comes next may have to wait a little.
const releaseTimeout = 2 * time.Second

// hold is compute's hold of its database while it runs.
type leaseKeeper struct {
	lost       chan struct{} // closed when another process has taken the database
	lease      *store.Lease
	log        *slog.Logger
	releaseCtx context.Context // of the release
	stop       context.CancelFunc
	work       sync.WaitGroup
	err        error // of Keep
}

// takeHold takes compute's database for this process and keeps it until close. When it is lost all the same, onLost is called at once.
func acquireLease(ctx context.Context, st *store.Store, onLost func(), log *slog.Logger) (*leaseKeeper, error) {
	lease, err := st.Hold(ctx, thisProcess(), store.LeaseOptions{Dead: hasEnded, Alive: isRunning, Waiting: func(last store.LeaseOwner, longest time.Duration) {
		log.Info("compute's database was not given back by the process that had it last; waiting to see whether it is alive", "process", last.String(), "longest", longest)
	}})
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

// close gives the database back. The fault says that it was lost before.
func (h *leaseKeeper) release() error {
	h.stop()
	h.work.Wait()
	if h.err != nil {
		return h.err
	}
	ctx, cancel := context.WithTimeout(h.releaseCtx, releaseTimeout)
	defer cancel()
	if err := h.lease.Release(ctx); err != nil {
		h.log.Warn("cannot give compute's database back; the next process may have to wait a few seconds for it", "error", err)
	}
	return nil
}
