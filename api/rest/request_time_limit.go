package rest

import (
	"context"
	"net/http"
	"time"

	"github.com/openberth/berth/fault"
)

// Limit returns a handler that sets a time limit for every request to h, from the arrival of its headers to the
// beginning of its answer. At the limit the context of the request ends with fault.Unavailable as the cause, and h
// answers. A handler that has read a body uses Renew, and one whose answer is a stream uses Unlimited from the
// beginning of the answer on. 0 means no limit.
func Limit(h http.Handler, limit time.Duration) http.Handler {
	if limit <= 0 {
		return h
	}
	timeUp := &fault.Error{Kind: fault.Unavailable, Err: context.DeadlineExceeded,
		Msg: "the request was not finished within " + limit.String() + ": the service or its " +
			"database is slow or stalled; try again later"}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		ctx, cancel := context.WithTimeoutCause(r.Context(), limit, timeUp)
		defer cancel()
		kept := &requestLimit{whole: r.Context(), limit: limit, timeUp: timeUp}
		h.ServeHTTP(w, r.WithContext(context.WithValue(ctx, limitKey{}, kept)))
	})
}

// requestLimit is what Limit stores in the context of a request.
type requestLimit struct {
	whole  context.Context // the context that Limit received
	limit  time.Duration
	timeUp error
}

// limitKey is the key of the *requestLimit in the context of a request.
type limitKey struct{}

// Renew returns a context with the values of ctx and the full limit of Limit from now on; without Limit, ctx itself. A
// server that has waited for its client, for example for a body, uses it so that the waiting time does not count. The
// caller calls the returned function when the request has ended.
func Renew(ctx context.Context) (context.Context, context.CancelFunc) {
	l, ok := ctx.Value(limitKey{}).(*requestLimit)
	if !ok {
		return ctx, func() {}
	}
	return context.WithTimeoutCause(valued{Context: l.whole, values: ctx}, l.limit, l.timeUp)
}

// valued is a context that also has the values of another one.
type valued struct {
	context.Context
	values context.Context
}

// Value implements context.Context. Context has precedence, because package context finds a parent by its values.
func (v valued) Value(key any) any {
	if value := v.Context.Value(key); value != nil {
		return value
	}
	return v.values.Value(key)
}

// Patient returns a context with the time limit of ctx that does not end if the client disconnects, for work that must
// be finished in any case.
func Patient(ctx context.Context) (context.Context, context.CancelFunc) {
	if deadline, ok := ctx.Deadline(); ok {
		return context.WithDeadline(context.WithoutCancel(ctx), deadline)
	}
	return context.WithCancel(context.WithoutCancel(ctx))
}

// Unlimited returns the context of a request without the limit of Limit. It still ends if the client disconnects.
func Unlimited(ctx context.Context) context.Context {
	if l, ok := ctx.Value(limitKey{}).(*requestLimit); ok {
		return l.whole
	}
	return ctx
}
