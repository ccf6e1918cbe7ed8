package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/openberth/berth/backoff"
	"github.com/openberth/berth/fault"
)

// Quietness is the flag of commands that show the progress of a transfer.
type Quietness struct {
	Quiet bool `short:"q" help:"Do not show the progress."`
}

// The times of a transfer: between two lines of its progress, between two changes of its bar, and how long it may
// pause: while data are moved, and when all are sent and the service checks them.
const (
	lineEvery  = 2 * time.Second
	barEvery   = 200 * time.Millisecond
	pauseLimit = time.Minute
	checkLimit = 10 * time.Minute
)

// progress is a reader of the data of a transfer. It shows how much has been read: on a terminal as a bar, else as a
// line from time to time. The transfer ends when it pauses for too long.
type progress struct {
	io.Reader
	to          io.Writer // nil: nothing is shown
	name        string
	done, total int64 // bytes; total -1: not known
	first       int64 // done at the begin
	width       int   // of the terminal; 0: it is a file
	begun       time.Time
	shown       time.Time
	timer       *time.Timer
}

// newProgress returns the reader of a transfer that has done bytes of total already, and the context of its request,
// which ends when the transfer pauses for too long. end must be called after the transfer.
func newProgress(ctx context.Context, g *Globals, quiet bool, name string, done, total int64) (p *progress,
	bounded context.Context, end func()) {
	bounded, cancel := context.WithCancelCause(ctx)
	now := time.Now()
	p = &progress{to: g.stderr(), name: name, done: done, first: done, total: total, begun: now, shown: now,
		width: terminalOf(g.stderr()).width}
	if quiet {
		p.to, p.width = io.Discard, 0
	}
	p.timer = time.AfterFunc(pauseLimit, func() {
		cancel(fmt.Errorf("nothing was transferred for %s", pauseLimit))
	})
	return p, bounded, func() {
		p.timer.Stop()
		cancel(nil)
		if p.width > 0 && p.shown != now { // a bar stays on its line
			fmt.Fprintln(p.to)
		}
	}
}

// Read implements io.Reader.
func (p *progress) Read(data []byte) (int, error) {
	n, err := p.Reader.Read(data)
	p.done += int64(n)
	limit := pauseLimit
	if err != nil {
		limit = checkLimit
	}
	p.timer.Reset(limit)
	every := lineEvery
	if p.width > 0 {
		every = barEvery
	}
	if time.Since(p.shown) > every || err == io.EOF {
		p.shown = time.Now()
		p.show()
	}
	return n, err
}

// show prints the progress.
func (p *progress) show() {
	amount := fmt.Sprintf("%d MiB", p.done>>20)
	if p.total > 0 {
		amount = fmt.Sprintf("%d of %d MiB (%d %%)", p.done>>20, p.total>>20, p.done*100/p.total)
	}
	if seconds := p.shown.Sub(p.begun).Seconds(); seconds >= 1 {
		amount += fmt.Sprintf(", %.1f MiB/s", float64(p.done-p.first)/seconds/(1<<20))
	}
	if p.width == 0 {
		fmt.Fprintf(p.to, "%s: %s\n", p.name, amount)
		return
	}
	room := p.width - len(p.name) - len(amount) - len(": [] ") - 1
	bar := ""
	if p.total > 0 && room >= 10 {
		room = min(room, 40)
		full := int(p.done * int64(room) / p.total)
		bar = "[" + strings.Repeat("#", full) + strings.Repeat(".", room-full) + "] "
	}
	fmt.Fprintf(p.to, "\r%s: %s%s\x1b[K", p.name, bar, amount)
}

// withCause returns the reason why a transfer was ended, or its error.
func withCause(ctx context.Context, err error) error {
	if cause := context.Cause(ctx); err != nil && cause != nil {
		return cause
	}
	return err
}

// Attempts to send the data, and the longest wait between two of them.
const (
	uploadAttempts = 6
	uploadWait     = 10 * time.Second
)

// mayContinue reports whether a transfer that ended with this error can be continued.
func mayContinue(err error) bool {
	return fault.Is(err, fault.Unavailable) || errors.Is(err, context.Canceled)
}

// retried repeats a transfer that has stopped, with growing waits.
func retried(ctx context.Context, g *Globals, transfer func() error) (err error) {
	waits := backoff.Exponential{First: time.Second, Max: uploadWait, Jitter: backoff.Around}
	for attempt := 1; ; attempt++ {
		err = transfer()
		if err == nil || attempt == uploadAttempts || ctx.Err() != nil || !mayContinue(err) {
			return err
		}
		fmt.Fprintf(g.stderr(), "the transfer stopped: %s; trying again\n", fault.TextOf(err))
		if backoff.Sleep(ctx, waits.Wait(attempt)) != nil {
			return err
		}
	}
}
