// Package restclient is a client of PowerVM's management REST API, K2, which NovaLink and the HMC serve.
//
// It logs on, keeps the session, repeats requests that the server was too busy for, and decodes objects. PUT creates
// and POST updates in this API. The rules, such as S3, are in docs/behaviour/powervm-ioslots.md.
package restclient

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/openberth/berth/agent/powervm/uom"
	"github.com/openberth/berth/backoff"
	"github.com/openberth/berth/fault"
)

// maxAnswer is the length of the longest answer in bytes.
const maxAnswer = 64 << 20

// readTime is the longest time of a request that reads.
const readTime = 2 * time.Minute

// The requests that are repeated while the server is busy wait 5, 10 and 15 seconds (S5).
const busyRetries = 3

// Client calls the REST API of one server. It may be used concurrently.
type Client struct {
	options Options
	http    *http.Client

	logon   sync.Mutex // one logon at a time; protects account and refused
	account account
	refused refusals
	session sync.Mutex // protects token
	token   string

	systems systemCache
}

// request is one call. path begins after /rest/api.
type request struct {
	method, path        string
	accept, contentType string
	ifMatch             string
	ifNoneMatch         string
	body                []byte
	noSession           bool // a logon
}

// answer is the answer to a request that succeeded.
type answer struct {
	status int
	etag   string
	mcType string // X-MC-Type: PVM on NovaLink, absent on an HMC
	body   []byte
}

const (
	atomType = "application/atom+xml"
	webType  = "application/vnd.ibm.powervm.web+xml; type="
	uomType  = "application/vnd.ibm.powervm.uom+xml; type="
)

// do performs a request with a session. It logs on when there is none or when the server says that it has ended, and
// repeats the request once; it repeats a request that the server was too busy for.
func (c *Client) do(ctx context.Context, r request) (answer, error) {
	renewed, busy := false, 0
	for {
		token, err := c.currentToken(ctx)
		if err != nil {
			return answer{}, err
		}
		a, failed, err := c.send(ctx, r, token)
		if err != nil || failed == nil {
			return a, err
		}
		switch {
		case failed.sessionEnded() && !renewed:
			renewed = true
			if err := c.renew(ctx, token); err != nil {
				return answer{}, err
			}
		case failed.busy() && busy < busyRetries:
			busy++
			c.options.Log.Info("PowerVM REST API busy", "method", r.method, "path", r.path, "reason", failed.message)
			if err := backoff.Sleep(ctx, c.options.Busy.Wait(busy)); err != nil {
				return answer{}, fault.Wrap(fault.Unavailable, err)
			}
		default:
			return answer{}, failed.fault(r)
		}
	}
}

// send performs one request once. failure is what the server answered, if it refused.
func (c *Client) send(ctx context.Context, r request, token string) (a answer, f *failure, err error) {
	timeout := c.options.Timeout
	switch r.method {
	case http.MethodPost: // an update may take three times as long as a creation
		timeout *= 3
	case http.MethodGet:
		timeout = min(timeout, readTime)
	}
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, r.method, c.options.URL+"/rest/api"+r.path,
		strings.NewReader(string(r.body)))
	if err != nil {
		return a, nil, fault.Wrap(fault.Invalid, err)
	}
	for name, value := range map[string]string{"Accept": r.accept, "Content-Type": r.contentType, "If-Match": r.ifMatch,
		"If-None-Match": r.ifNoneMatch, "X-API-Session": token, "X-Audit-Memento": c.options.Memento} {
		if value != "" {
			req.Header.Set(name, value)
		}
	}
	resp, err := c.http.Do(req)
	if err != nil {
		return a, nil, fault.New(fault.Unavailable, "%s %s failed: %w; check the service and [powervm] url",
			r.method, r.path, err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer+1))
	if err != nil {
		return a, nil, fault.New(fault.Unavailable, "the answer to %s %s was cut off: %w; it is retried",
			r.method, r.path, err)
	}
	if len(body) > maxAnswer {
		return a, nil, fault.New(fault.Internal, "the answer to %s %s is longer than %d bytes", r.method,
			r.path, maxAnswer)
	}
	if resp.StatusCode/100 == 2 || resp.StatusCode == http.StatusNotModified && r.ifNoneMatch != "" {
		return answer{status: resp.StatusCode, etag: resp.Header.Get("ETag"), mcType: resp.Header.Get("X-MC-Type"),
			body: body}, nil, nil
	}
	return a, readFailure(resp, body), nil
}

// get reads an object or a collection in the group None, which has the slots (S2).
func (c *Client) get(ctx context.Context, path, ifNoneMatch string) (answer, error) {
	return c.do(ctx, request{method: http.MethodGet, path: path + "?group=None", accept: atomType,
		ifNoneMatch: ifNoneMatch})
}

// malformed returns the fault for an answer that cannot be decoded.
func malformed(path string, err error) error {
	return fault.New(fault.Internal, "the answer to %s cannot be read: %w; report it with the payload", path,
		err)
}

// Delete deletes an object. An object that does not exist counts as deleted.
func (c *Client) Delete(ctx context.Context, path string) error {
	_, err := c.do(ctx, request{method: http.MethodDelete, path: path})
	if fault.Is(err, fault.NotFound) {
		return nil
	}
	return err
}

// Create creates an object of the type in the last element of the path, and returns it.
func (c *Client) Create(ctx context.Context, path string, object *uom.Element) (*uom.Element, error) {
	kind := path[strings.LastIndex(path, "/")+1:]
	a, err := c.do(ctx, request{method: http.MethodPut, path: path, accept: atomType + "; charset=UTF-8",
		contentType: uomType + kind, body: object.Bytes()})
	if err != nil {
		return nil, err
	}
	return contentOf(path, a.body)
}

func contentOf(path string, body []byte) (*uom.Element, error) {
	entry, err := uom.ParseElement(body)
	if err == nil {
		var object *uom.Element
		if object, err = uom.ContentOf(entry); err == nil {
			return object, nil
		}
	}
	return nil, malformed(path, err)
}

// updateWaits are the waits before each attempt of an update.
var updateWaits = []time.Duration{0, 500 * time.Millisecond, 2 * time.Second}

// Update reads an object, lets change edit it, and sends it back. If another client has changed it in between, it
// repeats all three, up to three times (S4). The path ends in the type and the UUID of the object. An error of change
// ends the update and is returned.
func (c *Client) Update(ctx context.Context, path string, change func(object *uom.Element) error) error {
	parts := strings.Split(path, "/")
	if len(parts) < 2 {
		return fault.New(fault.Internal, "the path %q has no type and UUID", path)
	}
	kind := parts[len(parts)-2]
	var last error
	for _, wait := range updateWaits {
		if err := backoff.Sleep(ctx, min(wait, c.options.Busy.First)); err != nil {
			return fault.Wrap(fault.Unavailable, err)
		}
		a, err := c.get(ctx, path, "")
		if err != nil {
			return err
		}
		entry, err := uom.ParseElement(a.body)
		if err != nil {
			return malformed(path, err)
		}
		object, err := uom.ContentOf(entry)
		if err != nil {
			return malformed(path, err)
		}
		etag := cmp.Or(a.etag, entry.ChildText("etag"))
		if etag == "" {
			return fault.New(fault.Internal, "%s has no ETag, so a change could overwrite that of "+
				"another client; it is not changed", path)
		}
		if err := change(object); err != nil {
			return err
		}
		_, last = c.do(ctx, request{method: http.MethodPost, path: path + "?group=None",
			accept: atomType + "; charset=UTF-8", contentType: uomType + kind, ifMatch: etag, body: object.Bytes()})
		if fault.CodeOf(last) != CodeETag {
			return last
		}
	}
	return last
}

// Partitions reads all partitions of a system: logical partitions and virtual I/O servers. Unavailable: the answer
// cannot be the whole list, so nothing may be concluded from it. A list without an entry is status 204; NovaLink itself
// runs in a logical partition, and every system with an HMC has at least one partition of either kind.
func (c *Client) Partitions(ctx context.Context, system string) ([]uom.Partition, error) {
	list := []uom.Partition{}
	for _, kind := range []string{"LogicalPartition", "VirtualIOServer"} {
		path := fmt.Sprintf("/uom/ManagedSystem/%s/%s", system, kind)
		a, err := c.get(ctx, path, "")
		if err != nil {
			return nil, err
		}
		entries, err := uom.Feed[uom.Partition](a.body, kind)
		if err != nil {
			return nil, malformed(path, err)
		}
		if len(entries) == 0 && (a.status != http.StatusNoContent || kind == "LogicalPartition" && a.mcType != "") {
			return nil, incomplete(path, "it has no entry")
		}
		for _, e := range entries {
			e.Object.UUID = cmp.Or(strings.TrimSpace(e.Object.UUID), e.ID)
			if e.Object.UUID == "" {
				return nil, incomplete(path, "an entry has no UUID")
			}
			list = append(list, e.Object)
		}
	}
	if len(list) == 0 {
		return nil, incomplete("/uom/ManagedSystem/"+system, "it has no partition of any kind")
	}
	return list, nil
}

// incomplete returns the fault for an answer that lacks what the server must have.
func incomplete(path, why string) error {
	return fault.New(fault.Unavailable,
		"the answer to %s is not complete: %s; nothing is concluded from it, and it is read again", path, why)
}

// Partition reads one logical partition. NotFound: the server says that it does not exist.
func (c *Client) Partition(ctx context.Context, uuid string) (uom.Partition, error) {
	path := "/uom/LogicalPartition/" + uuid
	a, err := c.get(ctx, path, "")
	if err != nil {
		return uom.Partition{}, err
	}
	entry, err := uom.One[uom.Partition](a.body, "LogicalPartition")
	if err != nil {
		return uom.Partition{}, malformed(path, err)
	}
	entry.Object.UUID = cmp.Or(strings.TrimSpace(entry.Object.UUID), entry.ID)
	if !strings.EqualFold(entry.Object.UUID, uuid) {
		return uom.Partition{}, malformed(path, fmt.Errorf("it is about the partition %s", entry.Object.UUID))
	}
	return entry.Object, nil
}

// discard is the logger of clients without one.
var discard = slog.New(slog.DiscardHandler)
