package cli

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/openberth/berth/api/compute"
	"github.com/openberth/berth/backoff"
	"github.com/openberth/berth/fault"
	"github.com/openberth/berth/provider"
)

// StoppedWaiting is the error of a command that the user interrupted while it waited for an operation.
type StoppedWaiting struct {
	Cause error  // of the context
	Look  string // the command that shows the state of the operation
}

// Error returns the sentence for the user.
func (e *StoppedWaiting) Error() string {
	return "interrupted while waiting: the operation continues in the service; `" + e.Look + "` shows its state"
}

// Unwrap returns the cause.
func (e *StoppedWaiting) Unwrap() error { return e.Cause }

const (
	firstPoll   = 100 * time.Millisecond // the wait between the first polls; it grows up to lastPoll
	lastPoll    = time.Second
	maxFollowed = 10 // servers of one command whose reasons are read at the same time
)

// watch waits for servers and prints to standard error why each is not done, one line per change.
type watch struct {
	g      *Globals
	client *compute.Client
	said   map[string]string                  // the last printed reason, by server id
	before map[string]compute.WhyHistoryEntry // the last entry of the history before the operation, by server id
	named  map[string]names                   // of the providers of a host, by the id of its root
	polls  int
}

func (g *Globals) watch() *watch {
	return &watch{g: g, client: g.compute(), said: map[string]string{}, named: map[string]names{},
		before: map[string]compute.WhyHistoryEntry{}}
}

// mark remembers the history of a server before an operation, so that only later entries are printed. Without access to
// the history nothing is remembered.
func (w *watch) mark(ctx context.Context, id string) {
	if why, err := w.client.Why(ctx, id); err == nil && len(why.History) > 0 {
		w.before[id] = why.History[len(why.History)-1]
	}
}

// next prints the reasons of the servers that are not done, and waits until the next poll. It returns *StoppedWaiting
// if the user interrupts the command, and fault.Unavailable when the time is over.
func (w *watch) next(ctx context.Context, unfinished []compute.Server) error {
	for _, s := range unfinished[:min(len(unfinished), maxFollowed)] {
		w.print(s.ID, s.Name, w.reason(ctx, s))
	}
	wait := min(firstPoll<<min(w.polls/10, 8), lastPoll)
	w.polls++
	if ctx.Err() == nil && backoff.Sleep(ctx, wait) == nil {
		return nil
	}
	return w.stopped(ctx)
}

// stopped returns the error of a wait whose context has ended.
func (w *watch) stopped(ctx context.Context) error {
	if errors.Is(ctx.Err(), context.Canceled) {
		return &StoppedWaiting{Cause: ctx.Err(), Look: "berth server list"}
	}
	return fault.New(fault.Unavailable, "not finished in time: the operation continues; see `berth server list`")
}

// ended returns the error of a call while waiting: that of the context if it has ended.
func (w *watch) ended(ctx context.Context, err error) error {
	if err != nil && ctx.Err() != nil {
		return w.stopped(ctx)
	}
	return err
}

// reason returns the last entry that the operation has added to the server's history, with names instead of the ids of
// providers; the status if there is none or if the service does not show a history. It is empty if the operation has
// ended meanwhile, and for entries that are faults, which are sentences: the error of the command has them.
func (w *watch) reason(ctx context.Context, s compute.Server) string {
	why, err := w.client.Why(ctx, s.ID)
	switch {
	case err != nil:
		return statusOf(s)
	case why.Task == "" && why.PortChange == "" && why.Status != "BUILD":
		return ""
	case len(why.History) == 0:
		return statusOf(s)
	}
	last, before := why.History[len(why.History)-1], w.before[s.ID]
	switch first, _ := utf8.DecodeRuneInString(last.Text); {
	case last.Text == before.Text && last.Times == before.Times && last.At.Equal(before.At):
		return statusOf(s)
	case unicode.IsUpper(first):
		return ""
	}
	return replacer(w.providers(ctx, why)).Replace(last.Text)
}

// providers returns the names of the providers of the host that was chosen.
func (w *watch) providers(ctx context.Context, why compute.Why) names {
	if why.Choice == nil {
		return nil
	}
	root := why.Choice.Root
	if _, known := w.named[root]; !known {
		w.named[root] = w.g.providerNames(ctx, url.Values{"in_tree": {root}})
	}
	return w.named[root]
}

// print prints a reason if it differs from the last one.
func (w *watch) print(id, name, reason string) {
	if reason == "" || w.said[id] == reason {
		return
	}
	w.said[id] = reason
	// A failed write to standard error must not end the wait.
	_, _ = fmt.Fprintf(w.g.stderr(), "%s: %s\n", provider.Printable(name), provider.Printable(reason))
}

// settled waits until a server has no task in progress.
func (w *watch) settled(ctx context.Context, id string) (compute.Server, error) {
	for {
		s, err := w.client.Server(ctx, id)
		if err != nil || s.TaskState == nil || *s.TaskState == "" {
			return s, w.ended(ctx, err)
		}
		if err := w.next(ctx, []compute.Server{s}); err != nil {
			return s, err
		}
	}
}

// confirmed waits until a confirmed move has ended.
func (w *watch) confirmed(ctx context.Context, id string) (compute.Server, error) {
	for {
		s, err := w.settled(ctx, id)
		if err != nil || s.Status != "VERIFY_RESIZE" {
			return s, err
		}
		if err := w.next(ctx, []compute.Server{s}); err != nil {
			return s, err
		}
	}
}

// gone waits until a server no longer exists, or unless force until it is one that can be restored. It returns which
// one it is, as a result of the command.
func (w *watch) gone(ctx context.Context, id string, force bool) (result string, err error) {
	for {
		s, err := w.client.Server(ctx, id)
		switch {
		case fault.Is(err, fault.NotFound):
			return "deleted", nil
		case err != nil:
			return "", w.ended(ctx, err)
		case !force && s.Status == "SOFT_DELETED" && (s.TaskState == nil || *s.TaskState == ""):
			return "deleted; `berth server restore " + id + "` brings it back", nil
		}
		if err := w.next(ctx, []compute.Server{s}); err != nil {
			return "", err
		}
	}
}

// built waits until no server is in BUILD.
func (w *watch) built(ctx context.Context, read func() ([]compute.Server, error)) ([]compute.Server, error) {
	for {
		list, err := read()
		if err != nil {
			return nil, w.ended(ctx, err)
		}
		var unfinished []compute.Server
		for _, s := range list {
			if s.Status == "BUILD" {
				unfinished = append(unfinished, s)
			}
		}
		if len(unfinished) == 0 {
			return list, nil
		}
		if err := w.next(ctx, unfinished); err != nil {
			return nil, err
		}
	}
}
