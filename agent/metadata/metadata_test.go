package metadata

import (
	"context"
	"encoding/json"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"testing"

	"github.com/openberth/berth/agent/configdrive"
	"github.com/openberth/berth/fault"
)

// guests returns the server of an address of network n.
func guests(_ context.Context, network string, at netip.Addr) (configdrive.Server, error) {
	if network != "n" || at.String() != "10.0.0.5" {
		return configdrive.Server{}, fault.New(fault.NotFound, "no guest")
	}
	return configdrive.Server{ID: "id-1", Name: "Web 1", KeyName: "k", PublicKey: "ssh-ed25519 AAAA k\n",
		UserData: []byte("#!/bin/sh\n"), Zone: "nova", Metadata: map[string]string{"a": "b"}}, nil
}

func get(network, from, method, path string) *httptest.ResponseRecorder {
	r := httptest.NewRequest(method, path, nil)
	r.RemoteAddr = from + ":40000"
	w := httptest.NewRecorder()
	New(guests, slog.New(slog.DiscardHandler)).handler(network).ServeHTTP(w, r)
	return w
}

// TestDocuments requests documents of OpenStack and of EC2, and what does not exist.
func TestDocuments(t *testing.T) {
	for path, want := range map[string]string{
		"/openstack/2018-08-27/user_data": "#!/bin/sh\n",
		"/openstack/latest/": "meta_data.json\nnetwork_data.json\nuser_data\nvendor_data.json\n" +
			"vendor_data2.json",
		"/latest/":                                           "meta-data/\nuser-data",
		"/latest/user-data":                                  "#!/bin/sh\n",
		"/2009-04-04/meta-data/instance-id":                  "id-1",
		"/2009-04-04/meta-data/hostname":                     "web-1",
		"/latest/meta-data/local-ipv4":                       "10.0.0.5",
		"/latest/meta-data/public-keys/":                     "0=k",
		"/latest/meta-data/public-keys/0":                    "openssh-key",
		"/latest/meta-data/public-keys/0/openssh-key":        "ssh-ed25519 AAAA k\n",
		"/latest/meta-data/placement":                        "availability-zone",
		"/latest/meta-data/../../openstack/latest/user_data": "#!/bin/sh\n",
	} {
		if w := get("n", "10.0.0.5", http.MethodGet, path); w.Code != 200 || w.Body.String() != want {
			t.Errorf("%s: %d %q", path, w.Code, w.Body)
		}
	}
	var meta struct {
		UUID string
		Meta map[string]string
	}
	w := get("n", "10.0.0.5", http.MethodGet, "/openstack/latest/meta_data.json")
	if json.Unmarshal(w.Body.Bytes(), &meta) != nil || meta.UUID != "id-1" || meta.Meta["a"] != "b" {
		t.Errorf("meta_data.json: %s", w.Body)
	}
	for _, c := range []struct {
		network, from, method, path string
		want                        int
	}{
		{"n", "10.0.0.5", http.MethodGet, "/openstack/latest/password", 404},
		{"n", "10.0.0.5", http.MethodGet, "/openstack/1999/user_data", 404},
		{"n", "10.0.0.5", http.MethodGet, "/latest/meta-data/nothing", 404},
		{"n", "10.0.0.5", http.MethodPost, "/openstack/latest/password", 405},
		{"n", "10.0.0.6", http.MethodGet, "/latest/user-data", 404},
		{"other", "10.0.0.5", http.MethodGet, "/latest/user-data", 404},
	} {
		if w := get(c.network, c.from, c.method, c.path); w.Code != c.want || strings.Contains(w.Body.String(), "#!") {
			t.Errorf("%+v: %d %s", c, w.Code, w.Body)
		}
	}
}

// TestGuestsByIPv6: a guest is known by its link-local address, whatever the interface, and reads its address of IPv4.
func TestGuestsByIPv6(t *testing.T) {
	var from netip.Addr
	one := configdrive.Server{ID: "id-6", Interfaces: []configdrive.Interface{{Addresses: []configdrive.Address{
		{Address: "fd00::5"}, {Address: "10.0.0.5"}}}}}
	s := New(func(_ context.Context, _ string, at netip.Addr) (configdrive.Server, error) {
		from = at
		return one, nil
	}, slog.New(slog.DiscardHandler))
	get := func(path string) string {
		r := httptest.NewRequest(http.MethodGet, path, nil)
		r.RemoteAddr = "[fe80::f816:3eff:fe00:5%brq0]:40000"
		w := httptest.NewRecorder()
		s.handler("n").ServeHTTP(w, r)
		return w.Body.String()
	}
	if got := get("/latest/meta-data/local-ipv4"); got != "10.0.0.5" || from.String() != "fe80::f816:3eff:fe00:5" {
		t.Errorf("%q for %s", got, from)
	}
	one.Interfaces, s.guests.kept = nil, nil
	if got := get("/latest/meta-data/local-ipv4"); got != "" {
		t.Errorf("without an address of IPv4: %q", got)
	}
}

// TestSides answers at one interface by both versions of IP, and no more when the side is left out. Another side of the
// network that cannot be answered does not prevent the first.
func TestSides(t *testing.T) {
	free, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	port := free.Addr().(*net.TCPAddr).Port
	free.Close()
	s := New(guests, slog.New(slog.DiscardHandler))
	defer s.Close()
	failed := s.Serve(port, map[string][]string{"n": {"lo", "nothing0"}, "m": nil})
	if len(failed) != 1 || !strings.Contains(failed["n"].Error(), "not served on nothing0") {
		t.Errorf("faults: %v", failed)
	}
	reached := func(host string) bool {
		c, err := net.Dial("tcp", net.JoinHostPort(host, number(port)))
		if err == nil {
			c.Close()
		}
		return err == nil
	}
	for _, host := range []string{"127.0.0.1", "::1"} {
		if l, err := net.Listen("tcp", net.JoinHostPort(host, "0")); err != nil {
			t.Logf("this machine has no %s: %v", host, err)
		} else if l.Close(); !reached(host) {
			t.Errorf("not answered at %s", host)
		}
	}
	// As Python's requests sends it for a link-local address.
	c, err := net.Dial("tcp", net.JoinHostPort("127.0.0.1", number(port)))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	answer := make([]byte, 100)
	_, err = c.Write([]byte("GET /openstack HTTP/1.1\r\nHost: [fe80::a9fe:a9fe%25eth0]\r\nConnection: close\r\n\r\n"))
	if _, err2 := c.Read(answer); err != nil || err2 != nil || !strings.HasPrefix(string(answer), "HTTP/1.1 404") {
		t.Errorf("the name of the host with a zone, from an address without a guest: %v %v %s", err, err2, answer)
	}
	if failed = s.Serve(port, map[string][]string{"n": {"lo"}}); len(failed) != 0 || !reached("127.0.0.1") {
		t.Errorf("again: %v", failed)
	}
	if failed = s.Serve(port, map[string][]string{}); len(failed) != 0 || reached("127.0.0.1") {
		t.Errorf("answered after it was left out: %v", failed)
	}
}

// TestConnectionsOfOneGuest closes connections beyond the limit of one guest at once.
func TestConnectionsOfOneGuest(t *testing.T) {
	inner, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	l := limited(inner)
	defer l.Close()
	accepted := make(chan net.Conn, 100)
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				close(accepted)
				return
			}
			accepted <- c
		}
	}()
	dial := func() net.Conn {
		c, err := net.Dial("tcp", inner.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { c.Close() })
		return c
	}
	var open []net.Conn
	for range maxOfGuest {
		dial()
		open = append(open, <-accepted)
	}
	if n, err := dial().Read(make([]byte, 1)); err == nil {
		t.Errorf("a further connection: %d bytes", n)
	}
	open[0].Close()
	open[0].Close() // counts once
	dial()
	<-accepted
	if n, err := dial().Read(make([]byte, 1)); err == nil {
		t.Errorf("a connection above the limit: %d bytes", n)
	}
}
