package cli

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/openberth/berth/api/compute"
	"github.com/openberth/berth/api/rest"
)

// The end of the input ends the connection when the guest has printed nothing for the linger time: not while it prints,
// and also if nothing was typed. Ctrl-] ends it at once, and what follows is not typed.
func TestEndOfConsoleInput(t *testing.T) {
	for name, test := range map[string]struct {
		in, typed string
		after     time.Duration
	}{
		"commands": {"run\n", "run\n", 17 * time.Second},
		"no input": {"", "", 17 * time.Second},
		"Ctrl-]":   {"run\n\x1dmore", "run\n", 0},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				typed := ""
				http := rest.InMemory(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
					var line compute.ConsoleLine
					if err := json.NewDecoder(r.Body).Decode(&line); err != nil || !strings.HasSuffix(r.URL.Path, "/s/console/one") {
						t.Errorf("%s: %v", r.URL, err)
					}
					typed += string(line.Data)
					w.WriteHeader(http.StatusNoContent)
				}))
				in := consoleInput{client: &compute.Client{REST: &rest.Client{Base: "http://compute", HTTP: http}}, server: "s",
					linger: 5 * time.Second, session: make(chan string, 1), printed: make(chan struct{}, 1)}
				in.session <- "one"
				printed := make(chan struct{})
				go func() {
					defer close(printed)
					for range 3 { // the guest prints until second 12
						time.Sleep(4 * time.Second)
						in.notePrinted()
					}
				}()
				began := time.Now()
				err := in.typeAll(context.Background(), strings.NewReader(test.in))
				if took := time.Since(began); !errors.Is(err, errUserEnded) || typed != test.typed || took != test.after {
					t.Errorf("after %s it returned %v and has typed %q, want %q after %s", took, err, typed, test.typed,
						test.after)
				}
				<-printed
			})
		})
	}
}
