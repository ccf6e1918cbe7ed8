package rest

import (
	"context"
	"errors"
	"io"
	"net/http"
	"os"
	"slices"
	"sync"
	"time"

	"github.com/openberth/berth/fault"
)

const (
	// FreeBody is how many bytes of each body a BodyBudget does not count. A body up to this size never waits.
	FreeBody = 16 << 10

	// contendedTimeout is how long a counted body may take to arrive while another one waits for memory.
	contendedTimeout = 3 * time.Second

	bodyStep     = 16 << 10               // how many bytes a body is charged for before they are read
	bodyInterval = 100 * time.Millisecond // how often a waiting body checks for slow ones
)

// ErrSlowBody is the error for a request body that arrived too slowly.
var ErrSlowBody = errors.New("the request body arrived too slowly; " +
	"send it again, over a faster connection or in smaller parts")

// BodyBudget bounds the memory of the request bodies that a server reads and handles at one time. It is safe for
// concurrent use.
//
// A body is charged as its bytes arrive, so a body that is announced but not sent costs nothing. When the budget is
// used up, further bodies wait: nothing is read from their connections. While any body waits, bodies that have been
// arriving for more than contendedTimeout are aborted, the slowest first, so slow clients cannot block others. Without
// contention they are not aborted. The oldest body can always be completed: a share of the budget, as large as the
// largest body, is reserved for it. Without this share, bodies that have each arrived in part could wait for each
// other.
type BodyBudget struct {
	largest int64

	mu       sync.Mutex
	free     int64
	arriving []*upload // the oldest first
	waiting  []*upload // those in arriving that wait for the budget, in the order in which they began to wait
}

// upload is one counted body. Its BodyBudget's mu guards it.
type upload struct {
	charged int64
	granted chan struct{} // closed when a waiting body has been charged
	spent   time.Duration // in completed reads
	since   time.Time     // when the current read began; zero: there is none
	slow    bool          // it was aborted
	stop    func()        // makes the current read return
}

// NewBodyBudget returns a budget of the given bytes, at least twice largest, for bodies of at most largest bytes.
func NewBodyBudget(bytes, largest int64) *BodyBudget {
	return &BodyBudget{largest: largest, free: max(bytes, 2*largest)}
}

// Read reads the whole body of a request, of at most limit bytes. If it returns no error, the caller must call release
// when it needs neither the body nor what it decoded from it any more; further calls have no effect. Errors:
// *http.MaxBytesError if the body is larger, ErrSlowBody if it arrived too slowly, fault.Unavailable if the request
// ended while the body waited, and those of the connection.
func (b *BodyBudget) Read(w http.ResponseWriter, r *http.Request, limit int64) (data []byte, release func(),
	err error) {
	from := http.MaxBytesReader(w, r.Body, limit)
	data, err = io.ReadAll(io.LimitReader(from, FreeBody))
	if err != nil || len(data) < FreeBody || r.ContentLength == FreeBody {
		return data, func() {}, bodyError(err)
	}
	control := http.NewResponseController(w)
	u := &upload{stop: func() {
		_ = control.SetReadDeadline(time.Unix(1, 0)) // fails for a body from memory, which is never slow
	}}
	b.begin(u)
	data, err = b.readCharged(r.Context(), u, from, data)
	if err != nil {
		b.end(u)
		return nil, func() {}, err
	}
	b.arrived(u)
	return data, sync.OnceFunc(func() { b.end(u) }), nil
}

// bodyError returns ErrSlowBody for a read that exceeded a deadline, otherwise err.
func bodyError(err error) error {
	if errors.Is(err, os.ErrDeadlineExceeded) {
		return ErrSlowBody
	}
	return err
}

// readCharged appends the rest of a body to data, and charges the budget for it.
func (b *BodyBudget) readCharged(ctx context.Context, u *upload, from io.Reader, data []byte) ([]byte, error) {
	for {
		if err := b.charge(ctx, u); err != nil {
			return nil, err
		}
		var err error
		for end := len(data) + bodyStep; len(data) < end && err == nil; {
			data = slices.Grow(data, end-len(data))
			var n int
			n, err = from.Read(data[len(data):end])
			data = data[:len(data)+n]
		}
		slow := b.endRead(u)
		switch {
		case err == io.EOF:
			return data, nil
		case slow:
			return nil, ErrSlowBody
		case err != nil:
			return nil, bodyError(err)
		}
	}
}

func (b *BodyBudget) begin(u *upload) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.arriving = append(b.arriving, u)
}

// charge waits until there is room for the next bytes of a body, and counts the time from then on as that of a read.
// It waits for at most the time limit of the request; the time that the client took for earlier bytes does not count.
func (b *BodyBudget) charge(ctx context.Context, u *upload) error {
	ctx, cancel := Renew(ctx)
	defer cancel()
	b.mu.Lock()
	defer b.mu.Unlock()
	u.granted = make(chan struct{})
	b.waiting = append(b.waiting, u)
	b.grant()
	look := time.NewTicker(bodyInterval)
	defer look.Stop()
	for slices.Contains(b.waiting, u) {
		b.abortSlowest(time.Now())
		b.mu.Unlock()
		select {
		case <-u.granted:
		case <-look.C:
		case <-ctx.Done():
		}
		b.mu.Lock()
		if err := ctx.Err(); err != nil {
			b.waiting = without(b.waiting, u)
			return fault.New(fault.Unavailable, "the request ended while its body waited for memory: %w", err)
		}
	}
	u.since = time.Now()
	return nil
}

// grant charges waiting bodies as far as there is room: first the oldest of all bodies, then the others in the order in
// which they began to wait. The caller holds mu.
func (b *BodyBudget) grant() {
	charge := func(u *upload) {
		b.free -= bodyStep
		u.charged += bodyStep
		b.waiting = without(b.waiting, u)
		close(u.granted)
	}
	if b.free >= bodyStep && len(b.waiting) > 0 && slices.Contains(b.waiting, b.arriving[0]) {
		charge(b.arriving[0])
	}
	// The last charge of a body may be larger than its rest, so one more step is reserved.
	for len(b.waiting) > 0 && b.free-bodyStep >= b.largest+bodyStep {
		charge(b.waiting[0])
	}
}

func without(list []*upload, u *upload) []*upload {
	return slices.DeleteFunc(list, func(other *upload) bool { return other == u })
}

// abortSlowest aborts the slowest body that has been arriving for contendedTimeout or more. The caller holds mu.
func (b *BodyBudget) abortSlowest(now time.Time) {
	var slowest *upload
	longest := contendedTimeout
	for _, u := range b.arriving {
		if u.slow { // its memory is released when its read returns
			u.stop() // again, because the deadline may have been replaced
			return
		}
		if took := u.took(now); u.charged > 0 && !slices.Contains(b.waiting, u) && took >= longest {
			slowest, longest = u, took
		}
	}
	if slowest != nil {
		slowest.slow = true
		slowest.stop()
	}
}

// took returns how long a body has been arriving, without the time in which it waited for the budget.
func (u *upload) took(now time.Time) time.Duration {
	if u.since.IsZero() {
		return u.spent
	}
	return u.spent + now.Sub(u.since)
}

// endRead adds the time of the current read to spent, and reports whether the body was aborted.
func (b *BodyBudget) endRead(u *upload) (slow bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	u.spent, u.since = u.took(time.Now()), time.Time{}
	return u.slow
}

// arrived records that the whole body has been read. It remains charged until end.
func (b *BodyBudget) arrived(u *upload) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.removeArriving(u)
}

// end returns the charge of a body to the budget.
func (b *BodyBudget) end(u *upload) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.free += u.charged
	u.charged = 0
	b.removeArriving(u)
}

// removeArriving removes a body from arriving and charges waiting ones. The caller holds mu.
func (b *BodyBudget) removeArriving(u *upload) {
	b.arriving = without(b.arriving, u)
	b.grant()
}
