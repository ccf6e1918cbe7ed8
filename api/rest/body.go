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
	// FreeBody is how many bytes of each body a BodyBudget does not count. A body that is no larger waits for no other.
	FreeBody = 16 << 10

	// contendedTimeout is how long a counted body may take to arrive while another one waits for memory.
	contendedTimeout = 3 * time.Second

	bodyStep     = 16 << 10               // a body is charged for its next bytes before they are read
	bodyInterval = 100 * time.Millisecond // how often a body that waits looks for slow ones
)

// ErrSlowBody is the cause when a request body was given up because it arrived too slowly.
var ErrSlowBody = errors.New("the request body arrived too slowly; " +
	"send it again, over a faster connection or in smaller parts")

// BodyBudget bounds the memory of the request bodies that a server reads and handles at one time. It is safe for
// concurrent use.
//
// A body is charged as its bytes arrive, so one that is announced and does not come costs nothing. When the budget is
// used up, further bodies wait, and their clients with them: nothing is read from their connections. While any body
// waits, those that have been arriving for more than contendedTime are given up, the slowest first; so slow clients
// cannot keep the budget from others, and are served as long as there is enough for all. The body that began first can
// always be completed: a part of the budget, as large as the largest body, is reserved for it. Without that, bodies
// that have each arrived in part could wait for each other.
type BodyBudget struct {
	largest int64

	mu       sync.Mutex
	free     int64
	arriving []*upload // the oldest first
	waiting  []*upload // of those, the ones that wait for the budget, in the order in which they began to
}

// upload is one counted body. Its BodyBudget's mu guards it.
type upload struct {
	charged int64
	granted chan struct{} // while it waits: closed when it has been charged
	spent   time.Duration // on reads that have returned
	since   time.Time     // when the read under way began; zero: none is
	slow    bool          // it was given up
	stop    func()        // makes a read under way return
}

// NewBodyBudget returns a budget of so many bytes, for bodies of at most largest bytes. It is at least twice largest.
func NewBodyBudget(bytes, largest int64) *BodyBudget {
	return &BodyBudget{largest: largest, free: max(bytes, 2*largest)}
}

// Read reads the whole body of a request of at most limit bytes. The caller calls release when it needs no more of what
// it made of the body; release may be called several times, and must be called without an error only. Errors:
// *http.MaxBytesError when the body is larger, ErrSlowBody when it arrived too slowly, fault.Unavailable when the
// request ended while the body waited, and those of the connection.
func (b *BodyBudget) Read(w http.ResponseWriter, r *http.Request, limit int64) (data []byte, release func(), err error) {
	from := http.MaxBytesReader(w, r.Body, limit)
	data, err = io.ReadAll(io.LimitReader(from, FreeBody))
	if err != nil || len(data) < FreeBody || r.ContentLength == FreeBody {
		return data, func() {}, bodyError(err)
	}
	control := http.NewResponseController(w)
	u := &upload{stop: func() {
		_ = control.SetReadDeadline(time.Unix(1, 0)) // fails for a body in memory, which is never slow
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

// bodyError returns ErrSlowBody for a read that met a deadline.
func bodyError(err error) error {
	if errors.Is(err, os.ErrDeadlineExceeded) {
		return ErrSlowBody
	}
	return err
}

// readCharged appends the rest of a body to data.
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
			const op = "rest.BodyBudget"
			return fault.New(fault.Unavailable, op, "the request ended while its body waited for memory: %w", err)
		}
	}
	u.since = time.Now()
	return nil
}

// grant charges those that wait, as far as there is room: the oldest of all bodies, and others in their turn. mu is
// held.
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
	// The last step of a body may be charged beyond its end, so that is reserved too.
	for len(b.waiting) > 0 && b.free-bodyStep >= b.largest+bodyStep {
		charge(b.waiting[0])
	}
}

func without(list []*upload, u *upload) []*upload {
	return slices.DeleteFunc(list, func(other *upload) bool { return other == u })
}

// abortSlowest gives up the slowest body if it has been arriving for too long. mu is held.
func (b *BodyBudget) abortSlowest(now time.Time) {
	var slowest *upload
	longest := contendedTimeout
	for _, u := range b.arriving {
		if u.slow { // its memory comes back as soon as its read has returned
			u.stop() // again: the deadline that was set may have been replaced
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

// took is how long a body has been arriving, without the times when it waited for the budget.
func (u *upload) took(now time.Time) time.Duration {
	if u.since.IsZero() {
		return u.spent
	}
	return u.spent + now.Sub(u.since)
}

// endRead ends the time of a read, and reports whether the body was given up.
func (b *BodyBudget) endRead(u *upload) (slow bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	u.spent, u.since = u.took(time.Now()), time.Time{}
	return u.slow
}

// arrived records that all of a body has been read; it is charged until end.
func (b *BodyBudget) arrived(u *upload) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.removeArriving(u)
}

// end gives back what a body was charged.
func (b *BodyBudget) end(u *upload) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.free += u.charged
	u.charged = 0
	b.removeArriving(u)
}

// removeArriving takes a body from those that arrive, and charges those that wait. mu is held.
func (b *BodyBudget) removeArriving(u *upload) {
	b.arriving = without(b.arriving, u)
	b.grant()
}
