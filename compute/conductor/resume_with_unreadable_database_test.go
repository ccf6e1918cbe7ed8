package conductor

import (
	"context"
	"strings"
	"testing"
)

// Resume returns the error if the database cannot be read, before any step runs.
func TestResumeReturnsTheError(t *testing.T) {
	c := newCloud(t, map[string]int{"a": 1})
	if err := New(c.store, c.client(nil), Config{}).Resume(t.Context()); err != nil {
		t.Error(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	err := New(c.store, c.client(nil), Config{}).Resume(ctx)
	if err == nil || !strings.Contains(err.Error(), "cannot resume unfinished records") {
		t.Errorf("%v", err)
	}
}
