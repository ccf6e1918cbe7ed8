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
