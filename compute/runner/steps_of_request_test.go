package runner

import (
	"context"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// valueKey is the key of what a request carries to its steps in a test.
type valueKey struct{}

// Steps have the values of the request that woke their record, also after failures; other steps have none.
func TestStepsKeepTheValuesOfTheirRequest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newMemory("", "")
		w.records["k001"] = record{due: "c"}
		var mu sync.Mutex
		seen := map[string][]any{}
		r := New(w, Machine[record, string, string]{Next: next, Steps: steps,
			StepFailed: func(step string, _ error) string { return "failed " + step },
			Gone:       func(error) bool { return false },
			Perform: func(ctx context.Context, _ record, step string) (string, error) {
				mu.Lock()
				defer mu.Unlock()
				if seen[step] = append(seen[step], ctx.Value(valueKey{})); len(seen[step]) == 1 {
					return "", errNoAnswer
				}
				return step, nil
			}}, 2)
		r.Carry = func(ctx, request context.Context) context.Context {
			return context.WithValue(ctx, valueKey{}, request.Value(valueKey{}))
		}
		defer run(t, r)()
		synctest.Wait()
		w.mu.Lock()
		w.records["k000"] = record{due: "ab"}
		w.mu.Unlock()
		request, end := context.WithCancel(context.WithValue(t.Context(), valueKey{}, "of the request"))
		r.WakeFrom(request, "k000", record{due: "ab"})
		end() // the steps outlive the request
		time.Sleep(time.Hour)
		mu.Lock()
		defer mu.Unlock()
		for step, want := range map[string]any{"a": "of the request", "b": "of the request", "c": nil} {
			if !slices.Equal(seen[step], []any{want, want}) { // a failure, and a success
				t.Errorf("step %s: %v, want %v", step, seen[step], want)
			}
		}
	})
}
