package main

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/openberth/berth/internal/testenv"
)

// holdConnections keeps connections to a server open until the test ends, and sends text on each. It replaces closed
// connections.
func holdConnections(t *testing.T, url string, connections int, text string) {
	t.Helper()
	ended := make(chan struct{})
	var working sync.WaitGroup
	for range connections {
		working.Go(func() {
			for {
				if conn, err := net.Dial("tcp", strings.TrimPrefix(url, "http://")); err == nil {
					closed := make(chan struct{})
					go func() {
						defer close(closed)
						_, _ = io.Copy(io.Discard, conn)
					}()
					go io.WriteString(conn, text)
					select {
					case <-ended:
					case <-closed:
					}
					conn.Close()
					<-closed
				}
				select {
				case <-ended:
					return
				case <-time.After(100 * time.Millisecond):
				}
			}
		})
	}
	t.Cleanup(func() {
		close(ended)
		working.Wait()
	})
}

// With incomplete request headers on more connections than are allowed, and uploads that stop after some megabytes,
// other requests are served. internal/httpserver tests that they do not wait for the time limits of the slow ones.
func TestSlowClientsDoNotBlockOthers(t *testing.T) {
	testenv.Long(t)
	d := up(t, conf(t, machine(t, 1, 1), "max_connections = 50"), t.TempDir())
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}, Timeout: testenv.Patience}
	upload := func(path, more string) string {
		return fmt.Sprintf("PUT %s HTTP/1.1\r\nHost: 127.0.0.1\r\nX-Auth-Token: admin\r\nContent-Type: "+
			"application/json\r\n%sContent-Length: %d\r\n\r\n[%s",
			path, more, 8<<20-1, strings.Repeat(" ", 7<<20))
	}
	for _, service := range []string{"placement", "compute"} {
		holdConnections(t, d.urls[service], 60, "GET / HTTP/1.1\r\nHost: 127.0.0.1\r\nX-Slow: ")
	}
	holdConnections(t, d.urls["placement"], 4, upload("/resource_providers/11111111-1111-4111-8111-111111111111/traits",
		"OpenStack-API-Version: placement 1.39\r\n"))
	holdConnections(t, d.urls["compute"], 20, upload("/berth/v1/hosts/cmp9", ""))
	time.Sleep(500 * time.Millisecond) // so that the slow requests have begun; the test is valid if they have not
	large := `{"name": "` + strings.Repeat("x", 64<<10) + `"}`
	for range 3 {
		for _, r := range []struct {
			method, url, body string
			want              int
		}{
			{"GET", d.urls["placement"] + "/resource_providers", "", 200},
			// the name is too long, but the server has read all of it
			{"POST", d.urls["placement"] + "/resource_providers", large, 400},
			{"GET", d.urls["compute"] + "/v2.1/flavors", "", 200},
			{"POST", d.urls["compute"] + "/v2.1/flavors", large, 400},
		} {
			what := fmt.Sprintf("%s %s of %d bytes", r.method, r.url, len(r.body))
			testenv.Until(t, what, func() error {
				req, err := http.NewRequest(r.method, r.url, strings.NewReader(r.body))
				must(t, err)
				req.Header.Set("X-Auth-Token", "admin")
				req.Header.Set("Content-Type", "application/json")
				begun := time.Now()
				resp, err := client.Do(req)
				if err != nil { // after a second without a byte, as on a busy machine, a connection may be replaced
					return err
				}
				resp.Body.Close()
				if resp.StatusCode != r.want {
					t.Errorf("%s: %s", what, resp.Status)
				}
				t.Logf("%s: %s", what, time.Since(begun))
				return nil
			})
		}
	}
}
