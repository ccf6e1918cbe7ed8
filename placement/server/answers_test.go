package server

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"

	api "github.com/openberth/berth/api/placement"
	"github.com/openberth/berth/placement/server/request"
)

// An answer of many chunks is sent while the search runs, a smaller one with its length. The content is the same.
func TestLargeAnswersAreSentInChunks(t *testing.T) {
	web := httptest.NewServer(fleet(1, 32))
	defer web.Close()
	for _, c := range []struct {
		limit, want int
		whole       bool
	}{{1, 1, true}, {100, 100, true}, {7000, 7000, true}, {0, 32 * 32 * 32, false}} {
		query := wide
		if c.limit > 0 {
			query += fmt.Sprint("&limit=", c.limit)
		}
		r := candidatesOf("1.39", query)
		r.RequestURI, r.URL.Scheme, r.URL.Host = "", "http", web.Listener.Addr().String()
		resp, err := web.Client().Do(r)
		if err != nil {
			t.Fatal(err)
		}
		body, err := io.ReadAll(resp.Body)
		resp.Body.Close()
		var got api.CandidatesDoc
		if err := errors.Join(err, json.Unmarshal(body, &got)); err != nil || resp.StatusCode != 200 ||
			len(got.Requests) != c.want || len(got.Summaries) != 33 {
			t.Fatalf("limit %d: %d, %v, %d candidates, %d summaries", c.limit, resp.StatusCode, err, len(got.Requests),
				len(got.Summaries))
		}
		length := resp.Header.Get("Content-Length")
		if c.whole && length != strconv.Itoa(len(body)) || !c.whole &&
			(length != "" || len(body) < 8*request.ChunkSize) {
			t.Errorf("limit %d: %d bytes, content-length %q", c.limit, len(body), length)
		}
		for _, name := range []string{api.VersionHeader, "Last-Modified", "X-Openstack-Request-Id"} {
			if resp.Header.Get(name) == "" {
				t.Errorf("limit %d: no %s", c.limit, name)
			}
		}
	}
}

// A list larger than a chunk is complete.
func TestLongLists(t *testing.T) {
	w := newWorld(t)
	w.handle("/long", func(c *request.Call) error {
		return c.SendList("items", 30_000, func(i int) any {
			return request.Object{"n": i,
				"text": strings.Repeat("x", 50)}
		})
	})
	body := w.want(200, "GET", "/long", "")
	if !strings.HasPrefix(body, `{"items":[{"n":0,`) || !strings.HasSuffix(body, `"}]}`) ||
		strings.Count(body, `},{"n":`) != 29_999 || len(body) <= 2*request.ChunkSize {
		t.Errorf("%d bytes: %.100s", len(body), body)
	}
	w.handle("/empty", func(c *request.Call) error { return c.SendList("items", 0, nil) })
	if body := w.want(200, "GET", "/empty", ""); body != `{"items":[]}` {
		t.Error(body)
	}
}
