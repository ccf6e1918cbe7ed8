package rest

import (
	"context"
	"net/http"
	"time"

	"github.com/openberth/berth/fault"
)

// Limit gives every request to h a time limit, from its head to the beginning of its answer: its context ends then,
// with a fault Unavailable as the cause, and h answers. A handler whose answer is a stream uses Unlimited from the
// beginning of the answer on. 0 means no limit.
func Limit(h http.Handler, limit time.Duration) http.Handler {
	if limit <= 0 {
		return h
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		timeUp := &fault.Error{Kind: fault.Unavailable, Op: "rest.Limit", Err: context.DeadlineExceeded,
			Msg: "the request was given up because it was not finished within " + limit.String() + ": the service or its " +
				"database is slow or stalled; try again later"}
		ctx, cancel := context.WithTimeoutCause(r.Context(), limit, timeUp)
		defer cancel()
		h.ServeHTTP(w, r.WithContext(context.WithValue(ctx, unlimitedKey{}, r.Context())))
	})
}

// Patient returns a context with the time limit of ctx that does not end when the client goes: for work that must be
// finished although nobody waits for the answer.
func Patient(ctx context.Context) (context.Context, context.CancelFunc) {
	if deadline, ok := ctx.Deadline(); ok {
		return context.WithDeadline(context.WithoutCancel(ctx), deadline)
	}
	return context.WithCancel(context.WithoutCancel(ctx))
}

// unlimitedKey is where Limit keeps the context that it was given.
type unlimitedKey struct{}

// Unlimited returns the context of a request without the limit of Limit. It still ends when the client goes.
func Unlimited(ctx context.Context) context.Context {
	if whole, ok := ctx.Value(unlimitedKey{}).(context.Context); ok {
		return whole
	}
	return ctx
}
