package stress

import (
	"slices"
	"strings"
	"testing"

	"github.com/openberth/berth/internal/databases"
)

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
