package webdownload

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/openberth/berth/fault"
)

func TestURLsAreChecked(t *testing.T) {
	usual := Rules{Schemes: []string{"http", "https"}, Ports: []int{80, 443}}
	for _, c := range []struct {
		rules Rules
		uri   string
		want  string // a part of the refusal; empty: accepted
	}{
		{usual, "https://cloud.example/image.qcow2", ""},
		{usual, "http://cloud.example:80/a", ""},
		{usual, "cloud.example/image.qcow2", "is not a URL"},
		{usual, "file:///etc/passwd", "is not a URL"},
		{usual, "ftp://cloud.example/a", `the scheme "ftp"`},
		{usual, "https://u:p@cloud.example/a", "a user or a password"},
		{usual, "https://cloud.example:9292/a", "the port 9292"},
		{Rules{NoPorts: []int{22}}, "http://cloud.example:22/a", "the port 22"},
		{Rules{Schemes: []string{"https"}}, "http://cloud.example/a", "the scheme http"},
		{Rules{NoSchemes: []string{"http"}}, "http://cloud.example/a", "the scheme http"},
		{Rules{Hosts: []string{"cloud.example"}}, "http://Cloud.Example./a", ""},
		{Rules{Hosts: []string{"cloud.example"}}, "http://other.example/a", "the host other.example"},
		{Rules{Hosts: []string{"10.1.0.0/16"}}, "http://10.1.2.3/a", ""},
		{Rules{Hosts: []string{"10.1.0.0/16"}}, "http://10.2.2.3/a", "the host 10.2.2.3"},
		{Rules{NoHosts: []string{"bad.example", "10.0.0.0/8"}}, "http://bad.example/a", "the host bad.example"},
		{Rules{NoHosts: []string{"bad.example", "10.0.0.0/8"}}, "http://10.9.9.9/a", "the host 10.9.9.9"},
		{Rules{Hosts: []string{"a.example"}, NoHosts: []string{"a.example"}}, "http://a.example/a", ""},
	} {
		err := Client{Rules: c.rules}.Check(c.uri)
		if c.want == "" && err != nil || c.want != "" && (!fault.Is(err, fault.Invalid) ||
			!strings.Contains(fault.TextOf(err), c.want)) {
			t.Errorf("%s with %+v: %v, want %q", c.uri, c.rules, err, c.want)
		}
	}
}

func TestPublicAddresses(t *testing.T) {
	for text, want := range map[string]bool{"8.8.8.8": true, "2606:4700::1111": true, "127.0.0.1": false,
		"10.0.0.1":   false,
		"172.16.0.1": false, "192.168.1.1": false, "169.254.169.254": false, "100.64.0.1": false, "0.0.0.0": false,
		"224.0.0.1": false, "255.255.255.255": false, "::1": false, "::": false, "fe80::1": false, "fd00::1": false,
		"64:ff9b::a00:1": false, "2002:a00:1::": false, "::ffff:10.0.0.1": false, "::ffff:8.8.8.8": true} {
		if got := (Rules{}).mayConnect("host.example", netip.MustParseAddr(text)); got != want {
			t.Errorf("%s: %v", text, got)
		}
	}
}

// serve starts a web server and returns its URL and a client that may read it as localhost.
func serve(t *testing.T, handle http.HandlerFunc) (string, Client) {
	t.Helper()
	server := httptest.NewServer(handle)
	t.Cleanup(server.Close)
	return server.URL, Client{Rules: Rules{Hosts: []string{"127.0.0.1"}}, Stall: 5 * time.Second}
}

// read returns the whole answer.
func read(ctx context.Context, c Client, uri string) (string, error) {
	body, _, err := c.Open(ctx, uri)
	if err != nil {
		return "", err
	}
	defer body.Close()
	text, err := io.ReadAll(body)
	return string(text), err
}

func TestImageIsRead(t *testing.T) {
	uri, c := serve(t, func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/moved":
			http.Redirect(w, r, "/image", http.StatusFound)
		case "/image":
			fmt.Fprint(w, "data")
		case "/loop":
			http.Redirect(w, r, "/loop", http.StatusFound)
		case "/out":
			http.Redirect(w, r, "http://other.example/", http.StatusFound)
		default:
			http.NotFound(w, r)
		}
	})
	if text, err := read(t.Context(), c, uri+"/moved"); text != "data" || err != nil {
		t.Errorf("%q %v", text, err)
	}
	for path, want := range map[string]string{"/none": "status 404", "/loop": "more than 5 times",
		"/out": "the host other.example"} {
		if _, err := read(t.Context(), c, uri+path); !fault.Is(err, fault.Invalid) ||
			!strings.Contains(fault.TextOf(err), want) {
			t.Errorf("%s: %v, want %q", path, err, want)
		}
	}
}

// A name with an address that is not public is refused before it is connected to, also after a redirect.
func TestAddressIsCheckedWhenItIsConnected(t *testing.T) {
	reached := false
	uri, _ := serve(t, func(http.ResponseWriter, *http.Request) { reached = true })
	u, err := url.Parse(uri)
	if err != nil {
		t.Fatal(err)
	}
	port, _ := strconv.Atoi(u.Port())
	for _, host := range []string{"localhost", "127.0.0.1"} {
		_, err := read(t.Context(), Client{Rules: Rules{Ports: []int{port}}}, "http://"+host+":"+u.Port()+"/")
		if !fault.Is(err, fault.Invalid) || !strings.Contains(fault.TextOf(err), "the address ") {
			t.Errorf("%s: %v", host, err)
		}
	}
	if reached {
		t.Error("the server was reached")
	}
}

func TestServerThatStallsIsGivenUp(t *testing.T) {
	release := make(chan struct{})
	uri, c := serve(t, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/begun" {
			fmt.Fprint(w, "da")
			w.(http.Flusher).Flush()
		}
		<-release
	})
	defer close(release)
	c.Stall = 50 * time.Millisecond
	for _, path := range []string{"/begun", "/silent"} {
		if _, err := read(t.Context(), c, uri+path); !fault.Is(err, fault.Unavailable) {
			t.Errorf("%s: %v", path, err)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := read(ctx, c, uri); err == nil {
		t.Error("a cancelled request succeeded")
	}
}

// A read fails with the reason for which the caller has ended it, also if the body is closed before that.
func TestReadNamesWhyItWasEnded(t *testing.T) {
	release := make(chan struct{})
	uri, c := serve(t, func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprint(w, "da")
		w.(http.Flusher).Flush()
		<-release
	})
	defer close(release)
	ctx, cancel := context.WithCancelCause(t.Context())
	body, _, err := c.Open(ctx, uri)
	if err != nil {
		t.Fatal(err)
	}
	body.Close()
	cancel(errors.New("the service was stopped"))
	if _, err := io.ReadAll(body); err == nil || !strings.Contains(err.Error(), "the service was stopped") {
		t.Error(err)
	}
}
