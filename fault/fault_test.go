package fault

import (
	"errors"
	"fmt"
	"io"
	"testing"
)

func TestKindSurvivesWrapping(t *testing.T) {
	inner := New(Conflict, "store.Put", "generation of %s moved", "a").WithCode("placement.concurrent_update")
	err := fmt.Errorf("handler: %w", Wrap("", "server.Put", inner))
	if !Is(err, Conflict) || CodeOf(err) != "placement.concurrent_update" {
		t.Fatalf("kind %q code %q", KindOf(err), CodeOf(err))
	}
	if got := TextOf(err); got != "generation of a moved" {
		t.Fatalf("text %q", got)
	}
	if got := err.Error(); got != "handler: server.Put: store.Put: generation of a moved" {
		t.Fatalf("error %q", got)
	}
}

func TestWrapSetsTheKindOfOtherErrors(t *testing.T) {
	err := Wrap(Unavailable, "journal.Write", io.ErrShortWrite)
	if !Is(err, Unavailable) || !errors.Is(err, io.ErrShortWrite) {
		t.Fatal(err)
	}
	if Wrap(Internal, "x", nil) != nil {
		t.Fatal("Wrap of nil returned an error")
	}
	if KindOf(io.EOF) != Internal || KindOf(nil) != "" {
		t.Fatalf("kind of io.EOF %q, kind of nil %q", KindOf(io.EOF), KindOf(nil))
	}
}

func TestNewKeepsTheCause(t *testing.T) {
	if err := New(Invalid, "op", "reading: %w", io.EOF); !errors.Is(err, io.EOF) {
		t.Fatal(err)
	}
}
