// Package webdownload reads images from web servers that the operator allows, for the import method web-download.
//
// A request that leaves the image service could reach what its sender cannot: services of the cloud, of the machine, or
// of the provider's network. So the host, the port and the scheme of a URL are checked, and each address before it is
// connected to: a name may have another address at the next look. Redirects are checked like the first URL.
package webdownload

import (
	"cmp"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/openberth/berth/fault"
)

// Rules are what the operator allows: Glance's options of the group import_filtering_opts. As in Glance, a list of what
// is disallowed applies only if the list of what is allowed is empty.
type Rules struct {
	Schemes, NoSchemes []string
	// Hosts are names, addresses and networks such as 10.1.0.0/16. Without them every host is allowed that NoHosts does
	// not name, and only public addresses are connected to. A host that Hosts names may have any address.
	Hosts, NoHosts []string
	Ports, NoPorts []int
}

// maxRedirects is how many redirects are followed.
const maxRedirects = 5

// Client reads images. It is safe for concurrent use.
type Client struct {
	Rules Rules
	Stall time.Duration // after which a server that sends nothing is given up; 0: a minute
}

// Check returns fault.Invalid for a URL that may not be read. Its addresses are checked when it is opened.
func (c Client) Check(address string) error {
	u, err := url.Parse(address)
	if err != nil || u.Host == "" {
		return fault.New(fault.Invalid, "uri %q is not a URL; write one such as https://cloud.example/image.qcow2", address)
	}
	return c.Rules.check(u)
}

func (r Rules) check(u *url.URL) error {
	port := u.Port()
	if port == "" {
		port = map[string]string{"http": "80", "https": "443"}[u.Scheme]
	}
	number, _ := strconv.Atoi(port)
	switch {
	case u.Scheme != "http" && u.Scheme != "https":
		return fault.New(fault.Invalid, "uri has the scheme %q; use http or https", u.Scheme)
	case u.User != nil:
		return fault.New(fault.Invalid, "uri has a user or a password, which others could read; leave it out")
	case !allowed(u.Scheme, r.Schemes, r.NoSchemes):
		return refused("the scheme", u.Scheme)
	case !allowed(number, r.Ports, r.NoPorts):
		return refused("the port", port)
	case len(r.Hosts) > 0 && !names(r.Hosts, u.Hostname()), len(r.Hosts) == 0 && names(r.NoHosts, u.Hostname()):
		return refused("the host", u.Hostname())
	}
	return nil
}

func refused(what, value string) error {
	return fault.New(fault.Invalid, "uri cannot be imported: %s %s is not allowed by [import_filtering_opts]; upload the "+
		"image, or ask an administrator to allow it", what, value)
}

func allowed[T comparable](value T, yes, no []T) bool {
	if len(yes) > 0 {
		return slices.Contains(yes, value)
	}
	return !slices.Contains(no, value)
}

// names reports whether a list has a host: its name, its address, or a network that has the address.
func names(list []string, host string) bool {
	at, _ := netip.ParseAddr(host)
	return slices.ContainsFunc(list, func(one string) bool {
		if network, err := netip.ParsePrefix(one); err == nil && at.IsValid() {
			return network.Contains(at.Unmap())
		}
		if other, err := netip.ParseAddr(one); err == nil && at.IsValid() {
			return other == at.Unmap()
		}
		return strings.EqualFold(strings.TrimSuffix(one, "."), strings.TrimSuffix(host, "."))
	})
}

// mayConnect reports whether an address of a host may be connected to.
func (r Rules) mayConnect(host string, at netip.Addr) bool {
	at = at.Unmap()
	if len(r.Hosts) > 0 {
		return names(r.Hosts, host) || names(r.Hosts, at.String())
	}
	return isPublic(at) && !names(r.NoHosts, at.String())
}

// special are the networks that are not public, besides those that netip knows: RFC 6890 and its successors.
var special = []netip.Prefix{
	netip.MustParsePrefix("0.0.0.0/8"), netip.MustParsePrefix("100.64.0.0/10"),
	netip.MustParsePrefix("192.0.0.0/24"), netip.MustParsePrefix("192.0.2.0/24"),
	netip.MustParsePrefix("198.18.0.0/15"), netip.MustParsePrefix("198.51.100.0/24"),
	netip.MustParsePrefix("203.0.113.0/24"), netip.MustParsePrefix("240.0.0.0/4"),
	netip.MustParsePrefix("64:ff9b::/96"), netip.MustParsePrefix("64:ff9b:1::/48"),
	netip.MustParsePrefix("100::/64"), netip.MustParsePrefix("2001::/23"),
	netip.MustParsePrefix("2001:db8::/32"), netip.MustParsePrefix("2002::/16"),
	netip.MustParsePrefix("fec0::/10"),
}

func isPublic(at netip.Addr) bool {
	return at.IsGlobalUnicast() && !at.IsPrivate() &&
		!slices.ContainsFunc(special, func(p netip.Prefix) bool { return p.Contains(at) })
}

// Open requests a URL. size is that of the answer in bytes; -1: unknown. fault.Invalid: the URL may not be read, or the
// server refuses it; fault.Unavailable: the server cannot be reached. Reading fails when the server sends nothing for
// Stall. The caller closes body.
func (c Client) Open(ctx context.Context, address string) (body io.ReadCloser, size int64, err error) {
	if err := c.Check(address); err != nil {
		return nil, 0, err
	}
	if c.Stall == 0 {
		c.Stall = time.Minute
	}
	caller := ctx
	ctx, cancel := context.WithCancelCause(ctx)
	watch := &stallWatch{caller: caller, cancel: cancel, limit: c.Stall}
	watch.timer = time.AfterFunc(c.Stall, watch.stalled)
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, address, nil)
	if err != nil {
		watch.end()
		return nil, 0, fault.New(fault.Invalid, "uri %q: %w", address, err)
	}
	request.Header.Set("Accept-Encoding", "identity")
	transport := c.transport()
	client := http.Client{Transport: transport, CheckRedirect: c.checkRedirect}
	response, err := client.Do(request)
	if err == nil && response.StatusCode != http.StatusOK {
		response.Body.Close()
		err = fault.New(fault.Invalid, "the server answers with status %d; check the URL", response.StatusCode)
	}
	if err != nil {
		err = failure(ctx, address, err)
		watch.end()
		transport.CloseIdleConnections()
		return nil, 0, err
	}
	watch.body, watch.transport, watch.ctx = response.Body, transport, ctx
	return watch, response.ContentLength, nil
}

// failure returns the fault for a request that failed.
func failure(ctx context.Context, address string, err error) error {
	if cause := context.Cause(ctx); cause != nil {
		err = cause
	}
	kind := fault.Unavailable
	if fault.Is(err, fault.Invalid) {
		kind = fault.Invalid
	}
	if u, is := errors.AsType[*url.Error](err); is {
		err = u.Err
	}
	return fault.New(kind, "%s cannot be read: %w", address, err)
}

// transport connects only to addresses that the rules allow, and uses no proxy, which would connect instead.
func (c Client) transport() *http.Transport {
	return &http.Transport{DisableCompression: true, TLSHandshakeTimeout: c.Stall, ResponseHeaderTimeout: c.Stall,
		DialContext: func(ctx context.Context, network, address string) (net.Conn, error) {
			host, _, err := net.SplitHostPort(address)
			if err != nil {
				return nil, err
			}
			d := net.Dialer{Timeout: 30 * time.Second, Control: func(_, to string, _ syscall.RawConn) error {
				at, err := netip.ParseAddrPort(to)
				if err != nil || !c.Rules.mayConnect(host, at.Addr()) {
					return refused("the address", to)
				}
				return nil
			}}
			return d.DialContext(ctx, network, address)
		}}
}

// checkRedirect refuses a redirect to what may not be read, to http from https, and more than maxRedirects.
func (c Client) checkRedirect(to *http.Request, from []*http.Request) error {
	if len(from) > maxRedirects {
		return fault.New(fault.Invalid, "the server redirects more than %d times", maxRedirects)
	}
	if from[len(from)-1].URL.Scheme == "https" && to.URL.Scheme != "https" {
		return fault.New(fault.Invalid, "the server redirects from https to %s; use the URL %s itself if that is intended",
			to.URL.Scheme, to.URL)
	}
	return c.Rules.check(to.URL)
}

// stallWatch is a body that fails when nothing arrives for a time.
type stallWatch struct {
	body      io.ReadCloser
	transport *http.Transport
	caller    context.Context // of the caller of Open
	ctx       context.Context // of the request
	cancel    context.CancelCauseFunc
	timer     *time.Timer
	limit     time.Duration
}

func (w *stallWatch) stalled() {
	w.cancel(fault.New(fault.Unavailable, "the server has sent nothing for %s", w.limit))
}

func (w *stallWatch) end() { w.timer.Stop(); w.cancel(nil) }

// Read implements io.Reader.
func (w *stallWatch) Read(p []byte) (int, error) {
	n, err := w.body.Read(p)
	w.timer.Reset(w.limit)
	if err != nil && err != io.EOF {
		// Close, which the end of the caller's context may cause, ends that of the request without a cause.
		if cause := cmp.Or(context.Cause(w.caller), context.Cause(w.ctx)); cause != nil {
			err = cause
		}
		err = fault.New(fault.Unavailable, "the download was interrupted: %w; import it again", err)
	}
	return n, err
}

// Close implements io.Closer.
func (w *stallWatch) Close() error {
	w.end()
	err := w.body.Close()
	w.transport.CloseIdleConnections()
	return err
}
