package fault

import (
	"errors"
	"fmt"
	"io"
	"testing"
)

func TestKindSurvivesWrapping(t *testing.T) {
	inner := New(Conflict, "generation of %s moved", "a").WithCode("placement.concurrent_update")
	err := fmt.Errorf("handler: %w", Wrap("", inner))
	if !Is(err, Conflict) || CodeOf(err) != "placement.concurrent_update" {
		t.Fatalf("kind %q code %q", KindOf(err), CodeOf(err))
	}
	if got := TextOf(err); got != "generation of a moved" {
		t.Fatalf("text %q", got)
	}
	if got := err.Error(); got != "handler: generation of a moved" {
		t.Fatalf("error %q", got)
	}
	if got := fmt.Errorf("handler: %w", inner.Of("PUT /x")); got.Error() != "handler: PUT /x: generation of a moved" ||
		TextOf(got) != "generation of a moved" {
		t.Fatalf("of a request: error %q, text %q", got, TextOf(got))
	}
}

func TestWrapSetsTheKindOfOtherErrors(t *testing.T) {
	err := Wrap(Unavailable, io.ErrShortWrite)
	if !Is(err, Unavailable) || !errors.Is(err, io.ErrShortWrite) {
		t.Fatal(err)
	}
	if Wrap(Internal, nil) != nil {
		t.Fatal("Wrap of nil returned an error")
	}
	if KindOf(io.EOF) != Internal || KindOf(nil) != "" {
		t.Fatalf("kind of io.EOF %q, kind of nil %q", KindOf(io.EOF), KindOf(nil))
	}
}

func TestNewKeepsTheCause(t *testing.T) {
	if err := New(Invalid, "reading: %w", io.EOF); !errors.Is(err, io.EOF) {
		t.Fatal(err)
	}
}

// Where names the function that made a fault which is looked for in the code, and no other.
func TestWhere(t *testing.T) {
	made := New(Unavailable, "no answer")
	for err, want := range map[error]string{made: "fault.TestWhere", New(NotFound, "no server"): "",
		Wrap(NotFound, made): "fault.TestWhere", io.EOF: ""} {
		if got := Where(err); got != want {
			t.Errorf("%v: %q, want %q", err, got, want)
		}
	}
}
