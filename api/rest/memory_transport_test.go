package rest

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net/http"
	"testing"

	"github.com/openberth/berth/fault"
)

func TestInMemoryStreamAndCancellation(t *testing.T) {
	gone := make(chan struct{}, 2)
	h := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprintln(w, "one")
		w.(http.Flusher).Flush()
		<-r.Context().Done()
		gone <- struct{}{}
	})
	transports(t, h, func(t *testing.T, c *Client) {
		ctx, cancel := context.WithCancel(t.Context())
		resp, err := c.Send(ctx, "GET", "/", nil)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		lines := bufio.NewReader(resp.Body)
		if line, err := lines.ReadString('\n'); line != "one\n" || err != nil {
			t.Fatalf("%q %v", line, err)
		}
		cancel()
		if _, err := lines.ReadString('\n'); !errors.Is(err, context.Canceled) {
			t.Errorf("a cancelled stream ended with %v", err)
		}
		<-gone
	})
}

func TestPanicEndsTheAnswer(t *testing.T) {
	c := &Client{Base: "http://x", HTTP: InMemory(http.HandlerFunc(func(http.ResponseWriter,
		*http.Request) {
		panic("boom")
	}))}
	if _, err := c.Do(t.Context(), "GET", "/", nil, nil); !fault.Is(err, fault.Unavailable) {
		t.Errorf("%v", err)
	}
}

// A header arrives under its canonical name, as over a socket, also if the handler wrote another form of it.
func TestHeaderNamesAreCanonical(t *testing.T) {
	h := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.Header()["ETag"] = []string{"1"} })
	transports(t, h, func(t *testing.T, c *Client) {
		resp, err := c.Send(t.Context(), "GET", "/", nil)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		if got := resp.Header.Get("ETag"); got != "1" {
			t.Errorf("ETag is %q, want 1", got)
		}
	})
}
