package stress

import (
	"bufio"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/openberth/berth/internal/databases"
	"github.com/openberth/berth/internal/testenv"
)

const searches = 200 // at a time

// TestPipelining sends many requests without waiting. Each is answered, in their order.
func TestPipelining(t *testing.T) {
	t.Parallel()
	p := newProcess(t, databases.SQLite(t))
	c := p.dial(t)
	var request strings.Builder
	const many = 200
	for i := range many {
		path := "/traits/CUSTOM_NONE"
		if i%2 == 0 {
			path = "/resource_classes/VCPU"
		}
		fmt.Fprintf(&request, "GET %s HTTP/1.1\r\nHost: 127.0.0.1\r\nX-Auth-Token: admin\r\nOpenStack-API-Version: "+
			"placement "+
			"1.39\r\n\r\n", path)
	}
	go io.WriteString(c, request.String())
	if err := c.SetReadDeadline(time.Now().Add(testenv.Patience)); err != nil {
		t.Fatal(err)
	}
	from := bufio.NewReader(c)
	for i := range many {
		response, err := http.ReadResponse(from, nil)
		if err != nil {
			t.Fatalf("response %d: %v", i, err)
		}
		if _, err := io.Copy(io.Discard, response.Body); err != nil || response.StatusCode != []int{200, 404}[i%2] {
			t.Fatalf("response %d: %d %v", i, response.StatusCode, err)
		}
	}
	p.checkAlive(t)
}

// TestManySearches sends many large queries at a time, half of them from clients that do not read the response.
// Memory stays bounded.
func TestManySearches(t *testing.T) {
	t.Parallel()
	p := newProcess(t, databases.SQLite(t))
	build(t, p.placementClient())
	var query strings.Builder
	for _, group := range "ABCDEFGH" { // two devices with four functions: 70 candidates on each of 12 hosts
		fmt.Fprintf(&query, "&resources_%c=%s:1", group, vf)
	}
	request := "GET /allocation_candidates?group_policy=none" + query.String() + " HTTP/1.1\r\nHost: " +
		"127.0.0.1\r\nX-Auth-Token: admin\r\nOpenStack-API-Version: placement 1.39\r\nConnection: close\r\n\r\n"
	before := p.peak(t)
	var all sync.WaitGroup
	var answered atomic.Int64
	for i := range searches {
		c := p.dial(t)
		all.Go(func() {
			if _, err := io.WriteString(c, request); err != nil {
				t.Error(err)
			}
			if i%2 == 0 {
				return // reads nothing
			}
			if err := c.SetReadDeadline(time.Now().Add(testenv.Patience)); err != nil {
				t.Error(err)
			}
			response, err := http.ReadResponse(bufio.NewReader(c), nil)
			if err != nil {
				t.Error(err)
				return
			}
			body, err := io.ReadAll(response.Body)
			n := strings.Count(string(body), `"mappings"`)
			switch {
			case err == nil && response.StatusCode == http.StatusOK && n == 12*70:
				answered.Add(1)
			case err == nil && response.StatusCode == http.StatusServiceUnavailable: // a busy machine decides not all in time
			default:
				t.Errorf("%d, %d candidates, %v", response.StatusCode, n, err)
			}
		})
	}
	all.Wait()
	p.checkAlive(t)
	after := p.peak(t)
	if answered.Load() == 0 {
		t.Error("no search was answered")
	}
	t.Logf("peak memory: %d MiB before, %d MiB after", before>>20, after>>20)
	if after > maxMemory {
		t.Errorf("peak memory is %d MiB", after>>20)
	}
}
