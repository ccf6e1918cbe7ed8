package rest

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/openberth/berth/fault"
)

// The context of a request ends at the limit with a cause. An unlimited one ends only with the client. 0 means no
// limit.
func TestLimit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for limit, want := range map[time.Duration]error{30 * time.Second: context.DeadlineExceeded, 0: nil} {
			client, leave := context.WithCancel(t.Context())
			ran := false
			h := Limit(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
				ran = true
				time.Sleep(29 * time.Second)
				if err := r.Context().Err(); err != nil {
					t.Errorf("after 29 s: %v", err)
				}
				time.Sleep(2 * time.Second)
				if err := r.Context().Err(); err != want {
					t.Errorf("after 31 s: %v", err)
				}
				cause := context.Cause(r.Context())
				if want != nil && (!fault.Is(cause, fault.Unavailable) || !errors.Is(cause, want) ||
					!strings.Contains(fault.TextOf(cause), "not finished within 30s")) {
					t.Errorf("the cause: %v", cause)
				}
				unlimited := Unlimited(r.Context())
				if err := unlimited.Err(); err != nil {
					t.Errorf("unlimited, after 31 s: %v", err)
				}
				leave()
				if err := unlimited.Err(); err != context.Canceled {
					t.Errorf("unlimited, without a client: %v", err)
				}
			}), limit)
			h.ServeHTTP(httptest.NewRecorder(), httptest.NewRequestWithContext(client, "GET", "/", nil))
			if !ran {
				t.Error("it did not run")
			}
		}
		if ctx := t.Context(); Unlimited(ctx) != ctx {
			t.Error("a context without a limit is not its own")
		}
	})
}

// A renewed limit starts again, keeps the values of the request, and has the same cause.
func TestRenew(t *testing.T) {
	type key struct{}
	synctest.Test(t, func(t *testing.T) {
		client, leave := context.WithCancel(t.Context())
		h := Limit(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
			time.Sleep(29 * time.Second)
			ctx, cancel := Renew(context.WithValue(r.Context(), key{}, "value"))
			defer cancel()
			time.Sleep(29 * time.Second)
			if err := ctx.Err(); err != nil || r.Context().Err() == nil || ctx.Value(key{}) != "value" {
				t.Errorf("29 s after the renewal: %v, %v", err, ctx.Value(key{}))
			}
			time.Sleep(2 * time.Second)
			if !errors.Is(ctx.Err(), context.DeadlineExceeded) || !fault.Is(context.Cause(ctx), fault.Unavailable) {
				t.Errorf("31 s after the renewal: %v, %v", ctx.Err(), context.Cause(ctx))
			}
			again, end := Renew(ctx)
			defer end()
			if err := Unlimited(again).Err(); again.Err() != nil || err != nil {
				t.Errorf("renewed twice: %v, %v", again.Err(), err)
			}
			leave()
			if !errors.Is(again.Err(), context.Canceled) {
				t.Errorf("without a client: %v", again.Err())
			}
		}), 30*time.Second)
		h.ServeHTTP(httptest.NewRecorder(), httptest.NewRequestWithContext(client, "GET", "/", nil))
		if ctx, _ := Renew(t.Context()); ctx != t.Context() {
			t.Error("a context without a limit is not its own")
		}
	})
}
