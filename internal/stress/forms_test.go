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

// What is no good HTTP, or too much of it, has an answer of its own or none at all; and the server stays well.
func TestHostileForms(t *testing.T) {
	t.Parallel()
	p := newProcess(t, databases.SQLite(t))
	const head = "Host: 127.0.0.1\r\nX-Auth-Token: admin\r\nOpenStack-API-Version: placement 1.39\r\n"
	post := "POST /resource_providers HTTP/1.1\r\n" + head + "Content-Type: application/json\r\n"
	for name, c := range map[string]struct {
		said string
		want []int // 0: no answer
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
		"no UTF-8 in the path":  {"GET /traits/\xff\xfe HTTP/1.1\r\n" + head + "\r\n", []int{400, 404}},
		"no UTF-8 in the query": {"GET /traits?name=in:\xff HTTP/1.1\r\n" + head + "\r\n", []int{400}},
		"no UTF-8 in a header":  {"GET /traits HTTP/1.1\r\n" + head + "X-Roles: \xff\r\n\r\n", []int{200, 403}},
		"no UTF-8 in the token": {"GET /traits HTTP/1.1\r\nHost: 127.0.0.1\r\nX-Auth-Token: \xff\xff\r\n\r\n",
			[]int{400, 401, 403, 404}},
		"no UTF-8 in the body": {post + "Content-Length: 12\r\n\r\n{\"name\":\"\xff\"}", []int{400}},
		"chunked": {post + "Transfer-Encoding: chunked\r\n\r\n5\r\n{\"nam\r\n9\r\ne\":\"one\"}\r\n0\r\n\r\n",
			[]int{200, 201, 400}},
		"a chunk of no length": {post + "Transfer-Encoding: chunked\r\n\r\nxyz\r\n{}\r\n0\r\n\r\n", []int{400}},
		"a chunk of endless size": {post + "Transfer-Encoding: chunked\r\n\r\nffffffffffffffffffff\r\n{}\r\n0\r\n\r\n",
			[]int{400}},
		"a chunk below zero": {post + "Transfer-Encoding: chunked\r\n\r\n-1\r\n{}\r\n0\r\n\r\n", []int{400}},
		"two lengths":        {post + "Content-Length: 2\r\nContent-Length: 3\r\n\r\n{}x", []int{400}},
		"a length and chunks": {post + "Content-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
			[]int{400, 415}},
		"a length below zero":      {post + "Content-Length: -1\r\n\r\n", []int{400}},
		"a length beyond counting": {post + "Content-Length: 99999999999999999999999\r\n\r\n", []int{400}},
		"a length of 8 EiB":        {post + "Content-Length: 9223372036854775807\r\n\r\n", []int{413}},
		"deep JSON":                {post + "Content-Length: 1000000\r\n\r\n" + strings.Repeat("[", 1_000_000), []int{400}},
		"another protocol":         {"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", []int{0, 400, 404, 405, 421, 505}},
		"no host":                  {"GET /traits HTTP/1.1\r\nX-Auth-Token: admin\r\n\r\n", []int{400}},
		"a folded header":          {"GET /traits HTTP/1.1\r\n" + head + "X-A: b\r\n c\r\n\r\n", []int{200, 400}},
	} {
		t.Run(name, func(t *testing.T) {
			status, _, err := p.say([]byte(c.said))
			if err != nil || !slices.Contains(c.want, status) {
				t.Errorf("%d %v, want one of %v", status, err, c.want)
			}
		})
	}
	p.well(t)
}

// Requests that are sent in one go are answered each, in their order.
func TestPipelining(t *testing.T) {
	t.Parallel()
	p := newProcess(t, databases.SQLite(t))
	c := p.dial(t)
	var said strings.Builder
	const many = 200
	for i := range many {
		path := "/traits/CUSTOM_NONE"
		if i%2 == 0 {
			path = "/resource_classes/VCPU"
		}
		fmt.Fprintf(&said, "GET %s HTTP/1.1\r\nHost: 127.0.0.1\r\nX-Auth-Token: admin\r\nOpenStack-API-Version: placement "+
			"1.39\r\n\r\n", path)
	}
	go io.WriteString(c, said.String())
	if err := c.SetReadDeadline(time.Now().Add(patience)); err != nil {
		t.Fatal(err)
	}
	from := bufio.NewReader(c)
	for i := range many {
		answer, err := http.ReadResponse(from, nil)
		if err != nil {
			t.Fatalf("answer %d: %v", i, err)
		}
		if _, err := io.Copy(io.Discard, answer.Body); err != nil || answer.StatusCode != []int{200, 404}[i%2] {
			t.Fatalf("answer %d: %d %v", i, answer.StatusCode, err)
		}
	}
	p.well(t)
}

// Many large questions at a time, half of them by clients that do not take the answer, are answered with bounded
// memory.
func TestManySearches(t *testing.T) {
	t.Parallel()
	p := newProcess(t, databases.SQLite(t))
	build(t, p.client())
	var query strings.Builder
	for _, group := range "ABCDEFGH" { // on two devices of four functions: 70 ways on each of 12 hosts
		fmt.Fprintf(&query, "&resources_%c=%s:1", group, vf)
	}
	said := "GET /allocation_candidates?group_policy=none" + query.String() + " HTTP/1.1\r\nHost: " +
		"127.0.0.1\r\nX-Auth-Token: admin\r\nOpenStack-API-Version: placement 1.39\r\nConnection: close\r\n\r\n"
	before := p.peak(t)
	var all sync.WaitGroup
	for i := range searches {
		c := p.dial(t)
		all.Go(func() {
			if _, err := io.WriteString(c, said); err != nil {
				t.Error(err)
			}
			if i%2 == 0 {
				return // and takes nothing
			}
			if err := c.SetReadDeadline(time.Now().Add(2 * patience)); err != nil {
				t.Error(err)
			}
			answer, err := http.ReadResponse(bufio.NewReader(c), nil)
			if err != nil {
				t.Error(err)
				return
			}
			body, err := io.ReadAll(answer.Body)
			if n := strings.Count(string(body), `"mappings"`); err != nil || answer.StatusCode != http.StatusOK || n != 12*70 {
				t.Errorf("%d, %d candidates, %v", answer.StatusCode, n, err)
			}
		})
	}
	all.Wait()
	p.well(t)
	after := p.peak(t)
	t.Logf("memory at the most: %d MiB before, %d MiB after", before>>20, after>>20)
	if after > most {
		t.Errorf("memory went up to %d MiB", after>>20)
	}
}
