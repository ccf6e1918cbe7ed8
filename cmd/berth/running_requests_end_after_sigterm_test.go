package main

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"syscall"
	"testing"

	"github.com/openberth/berth/internal/testenv"
)

// After SIGTERM, fifty requests whose bodies arrive slowly are answered, and the process ends without an error.
func TestRunningRequestsEndAfterSIGTERM(t *testing.T) {
	t.Parallel()
	d := start(t, []string{"placement"}, "placement", "--config-file", conf(t, machine(t, 1, 1)), "--data-dir",
		t.TempDir(), "--listen", "127.0.0.1:0")
	const many = 50
	begun, statuses := make(chan struct{}, many), make(chan string, many)
	release := make(chan struct{})
	for i := range many {
		go func() {
			body, feed := io.Pipe()
			go func() {
				_, _ = fmt.Fprintf(feed, `{"name":`)
				begun <- struct{}{}
				<-release
				_, _ = fmt.Fprintf(feed, `"host-%d"}`, i)
				feed.Close()
			}()
			req, err := http.NewRequest("POST", d.urls["placement"]+"/resource_providers", body)
			if err != nil {
				statuses <- err.Error()
				return
			}
			req.Header.Set("X-Auth-Token", "admin")
			req.Header.Set("Content-Type", "application/json")
			resp, err := (&http.Client{Timeout: testenv.Patience}).Do(req)
			if err != nil {
				statuses <- err.Error()
				return
			}
			resp.Body.Close()
			statuses <- resp.Status
		}()
	}
	for range many {
		<-begun
	}
	// The server's metrics have the number of requests that have arrived.
	testenv.Until(t, "all requests have begun", func() (bool, error) {
		resp, err := http.Get(d.urls["placement"] + "/metrics")
		if err != nil {
			return false, err
		}
		defer resp.Body.Close()
		text, err := io.ReadAll(resp.Body)
		return strings.Contains(string(text), fmt.Sprintf("\nberth_placement_requests_in_flight %d\n", many)), err
	})
	if err := d.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	testenv.Until(t, "new connections are refused", func() (bool, error) {
		resp, err := (&http.Client{Transport: &http.Transport{DisableKeepAlives: true}}).Get(d.urls["placement"] + "/")
		if err == nil {
			resp.Body.Close()
		}
		return err != nil, nil
	})
	close(release)
	for range many {
		if got := <-statuses; got != "201 Created" {
			t.Errorf("a request that began before SIGTERM: %s", got)
		}
	}
	d.stop(t)
}
