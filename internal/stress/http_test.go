package stress

import (
	"bufio"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/openberth/berth/internal/databases"
)

const searches = 200 // at a time

// TestHostileRequests sends malformed and oversized requests. Each gets its response or none, and the server stays
// healthy.
func TestHostileRequests(t *testing.T) {
	t.Parallel()
	p := newProcess(t, databases.SQLite(t))
	const head = "Host: 127.0.0.1\r\nX-Auth-Token: admin\r\nOpenStack-API-Version: placement 1.39\r\n"
	post := "POST /resource_providers HTTP/1.1\r\n" + head + "Content-Type: application/json\r\n"
	for name, c := range map[string]struct {
		request string
		want    []int // 0: no response
	}{
		"many headers": {"GET /traits HTTP/1.1\r\n" + head + strings.Repeat("X-A: b\r\n", 20_000) + "\r\n",
			[]int{431}},
		"one long header": {"GET /traits HTTP/1.1\r\n" + head + "X-A: " + strings.Repeat("b", 200_000) + "\r\n\r\n",
			[]int{431}},
		"a long path": {"GET /" + strings.Repeat("a", 60_000) + " HTTP/1.1\r\n" + head + "\r\n", []int{404}},
		"a path that is too long": {"GET /" + strings.Repeat("a", 66_000) + " HTTP/1.1\r\n" + head + "\r\n",
			[]int{414, 431}},
		"many slashes": {"GET " + strings.Repeat("/", 60_000) + " HTTP/1.1\r\n" + head + "\r\n", []int{404}},
		"many parameters": {"GET /resource_providers?" + strings.Repeat("a&", 30_000) + " HTTP/1.1\r\n" + head +
			"\r\n", []int{400}},
		"invalid UTF-8 in the path":  {"GET /traits/\xff\xfe HTTP/1.1\r\n" + head + "\r\n", []int{400, 404}},
		"invalid UTF-8 in the query": {"GET /traits?name=in:\xff HTTP/1.1\r\n" + head + "\r\n", []int{400}},
		"invalid UTF-8 in a header":  {"GET /traits HTTP/1.1\r\n" + head + "X-Roles: \xff\r\n\r\n", []int{200, 403}},
		"invalid UTF-8 in the token": {"GET /traits HTTP/1.1\r\nHost: 127.0.0.1\r\nX-Auth-Token: \xff\xff\r\n\r\n",
			[]int{400, 401, 403, 404}},
		"invalid UTF-8 in the body": {post + "Content-Length: 12\r\n\r\n{\"name\":\"\xff\"}", []int{400}},
		"chunked": {post + "Transfer-Encoding: chunked\r\n\r\n5\r\n{\"nam\r\n9\r\ne\":\"one\"}\r\n0\r\n\r\n",
			[]int{200, 201, 400}},
		"a chunk without length": {post + "Transfer-Encoding: chunked\r\n\r\nxyz\r\n{}\r\n0\r\n\r\n", []int{400}},
		"a chunk with an overflowing length": {
			post + "Transfer-Encoding: chunked\r\n\r\nffffffffffffffffffff\r\n{}\r\n0\r\n\r\n",
			[]int{400}},
		"a chunk with a negative length": {post + "Transfer-Encoding: chunked\r\n\r\n-1\r\n{}\r\n0\r\n\r\n", []int{400}},
		"two lengths":                    {post + "Content-Length: 2\r\nContent-Length: 3\r\n\r\n{}x", []int{400}},
		"a length and chunks": {post + "Content-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
			[]int{400, 415}},
		"a negative length":     {post + "Content-Length: -1\r\n\r\n", []int{400}},
		"an overflowing length": {post + "Content-Length: 99999999999999999999999\r\n\r\n", []int{400}},
		"a length of 8 EiB":     {post + "Content-Length: 9223372036854775807\r\n\r\n", []int{413}},
		"deep JSON":             {post + "Content-Length: 1000000\r\n\r\n" + strings.Repeat("[", 1_000_000), []int{400}},
		"another protocol":      {"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", []int{0, 400, 404, 405, 421, 505}},
		"no host":               {"GET /traits HTTP/1.1\r\nX-Auth-Token: admin\r\n\r\n", []int{400}},
		"a folded header":       {"GET /traits HTTP/1.1\r\n" + head + "X-A: b\r\n c\r\n\r\n", []int{200, 400}},
	} {
		t.Run(name, func(t *testing.T) {
			status, _, err := p.send([]byte(c.request))
			if err != nil || !slices.Contains(c.want, status) {
				t.Errorf("%d %v, want one of %v", status, err, c.want)
			}
		})
	}
	p.checkAlive(t)
}

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
	if err := c.SetReadDeadline(time.Now().Add(patience)); err != nil {
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
	for i := range searches {
		c := p.dial(t)
		all.Go(func() {
			if _, err := io.WriteString(c, request); err != nil {
				t.Error(err)
			}
			if i%2 == 0 {
				return // reads nothing
			}
			if err := c.SetReadDeadline(time.Now().Add(2 * patience)); err != nil {
				t.Error(err)
			}
			response, err := http.ReadResponse(bufio.NewReader(c), nil)
			if err != nil {
				t.Error(err)
				return
			}
			body, err := io.ReadAll(response.Body)
			if n := strings.Count(string(body), `"mappings"`); err != nil || response.StatusCode != http.StatusOK || n != 12*70 {
				t.Errorf("%d, %d candidates, %v", response.StatusCode, n, err)
			}
		})
	}
	all.Wait()
	p.checkAlive(t)
	after := p.peak(t)
	t.Logf("peak memory: %d MiB before, %d MiB after", before>>20, after>>20)
	if after > maxMemory {
		t.Errorf("peak memory is %d MiB", after>>20)
	}
}
