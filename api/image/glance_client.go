package image

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"math/rand/v2"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/openberth/berth/api/identity"
	"github.com/openberth/berth/api/trace"
	"github.com/openberth/berth/backoff"
	"github.com/openberth/berth/fault"
)

const (
	maxAnswer    = 4 << 20          // of an answer, in bytes
	maxTime      = 30 * time.Second // of Image, with all tries
	betweenTries = 200 * time.Millisecond
	serviceType  = "image"
)

// Options are the options of [glance].
type Options struct {
	Servers []string          // endpoint_override or api_servers; empty: the catalog of Account
	Account *identity.Account // nil: the caller of the request, with the caller's token
	Token   string            // of an account of this process, if Account is nil; empty: the caller's token
	Retries int               // num_retries: how often a failed call is retried, at the next of Servers
	HTTP    *http.Client      // with the certificates and the time-out of one call; nil: 10 seconds
}

// Client is a client of one image service. It is safe for concurrent use.
type Client struct {
	o    Options
	time time.Duration

	first func(servers int) int // index of the first server to call
	wait  func(context.Context) // before a retry
}

// New returns a client. It makes no call. It returns fault.Invalid if the options do not locate the image service.
func New(o Options) (*Client, error) {
	if len(o.Servers) == 0 && o.Account.Locate(serviceType) == nil {
		return nil, fault.New(fault.Invalid, "[glance] does not locate the image service; write endpoint_override, "+
			"or an account at Keystone, whose catalog has the address")
	}
	for _, server := range o.Servers {
		if u, err := url.Parse(server); err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" ||
			u.User != nil {
			return nil, fault.New(fault.Invalid, "the URL of the image service in [glance] is not valid, or has a user "+
				"and a password; write one such as http://controller:9292")
		}
	}
	if o.HTTP == nil {
		o.HTTP = &http.Client{Timeout: 10 * time.Second, // without redirection: the token is sent to no other server
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	}
	return &Client{o: o, time: max(maxTime, o.HTTP.Timeout), first: rand.N[int], wait: func(ctx context.Context) {
		_ = backoff.Sleep(ctx, betweenTries) // the next call fails if ctx has ended
	}}, nil
}

// Image reads an image on behalf of a caller. It returns fault.NotFound if there is no such image that the caller may
// see; fault.Forbidden if the image service rejects the caller; fault.Unavailable, within maxTime, if the image
// service does not answer or its answer is not valid.
func (c *Client) Image(ctx context.Context, who identity.Identity, token, id string) (Image, error) {
	ctx, cancel := context.WithTimeout(ctx, c.time)
	defer cancel()
	var i Image
	if err := c.get(ctx, who, token, "/v2/images/"+url.PathEscape(id), &i); err != nil {
		return Image{}, err
	}
	if i.visibleTo(who.Project) || who.IsAdmin() {
		return i, nil
	}
	missing := fault.New(fault.NotFound, "there is no image %s for project %s", id, who.Project)
	if i.Visibility != "shared" {
		return Image{}, missing
	}
	// The member status does not matter: it only controls whether the image is listed.
	var member struct {
		ID string `json:"member_id"`
	}
	err := c.get(ctx, who, token, "/v2/images/"+url.PathEscape(id)+"/members/"+url.PathEscape(who.Project), &member)
	if fault.Is(err, fault.NotFound) || fault.Is(err, fault.Forbidden) ||
		err == nil && (member.ID == "" || member.ID != who.Project) {
		return Image{}, missing
	}
	if err != nil {
		return Image{}, err
	}
	return i, nil
}

// maxImagePages is how many pages of images are read.
const maxImagePages = 1000

// Images lists the images that a caller owns, and those that all may see: public ones, and for administrators all. The
// order is that of the image service: the newest first. The faults are those of Image.
func (c *Client) Images(ctx context.Context, who identity.Identity, token string) (list []Image, err error) {
	ctx, cancel := context.WithTimeout(ctx, c.time)
	defer cancel()
	path := "/v2/images?limit=1000"
	for range maxImagePages {
		var page struct {
			Images []Image
			Next   string
		}
		if err := c.get(ctx, who, token, path, &page); err != nil {
			return nil, err
		}
		for _, i := range page.Images {
			if who.IsAdmin() || i.Owner == who.Project || i.Visibility == "public" {
				list = append(list, i)
			}
		}
		if page.Next == "" {
			return list, nil
		}
		path = page.Next
	}
	return nil, fault.New(fault.Unavailable, "the list of images does not end after %d pages", maxImagePages)
}

// Delete deletes an image that a caller owns, or that exists if the caller is an administrator. It returns
// fault.NotFound if the caller may not see the image, fault.Forbidden if another project owns it or it is protected,
// fault.Conflict if it is used, and fault.Unavailable if the image service does not answer.
func (c *Client) Delete(ctx context.Context, who identity.Identity, token, id string) error {
	i, err := c.Image(ctx, who, token, id)
	if err != nil {
		return err
	}
	if i.Owner != who.Project && !who.IsAdmin() {
		return fault.New(fault.Forbidden, "You are not allowed to delete image %s: another project owns it", id)
	}
	ctx, cancel := context.WithTimeout(ctx, c.time)
	defer cancel()
	servers, err := c.servers(ctx)
	if err != nil {
		return err
	}
	server := withoutVersion(servers[c.first(len(servers))])
	request, err := c.request(ctx, who, token, server+"/v2/images/"+url.PathEscape(id))
	if err != nil {
		return err
	}
	request.Method = http.MethodDelete
	status, body, err := c.once(request)
	switch {
	case err != nil:
		return err
	case status == http.StatusNoContent:
		return nil
	case status == http.StatusForbidden:
		return fault.New(fault.Forbidden, "You are not allowed to delete image %s: %s", id, sentenceOf(body))
	case status == http.StatusConflict:
		return fault.New(fault.Conflict, "image %s cannot be deleted: %s", id, sentenceOf(body))
	}
	return readAnswer(server, "/v2/images/"+id, status, body, c.o.Account != nil, nil)
}

// get reads a path. It retries a call without an answer, at the next server if there are several.
func (c *Client) get(ctx context.Context, who identity.Identity, token, path string, into any) error {
	servers, err := c.servers(ctx)
	if err != nil {
		return err
	}
	first := c.first(len(servers))
	renewed := false
	for try := 0; ; try++ {
		server := withoutVersion(servers[(first+try)%len(servers)])
		request, err := c.request(ctx, who, token, server+path)
		if err != nil {
			return err
		}
		status, body, err := c.once(request)
		if status == http.StatusUnauthorized && !renewed && c.renew(request) {
			renewed = true
			try--
			continue
		}
		if err == nil && status < http.StatusInternalServerError {
			return readAnswer(server, path, status, body, c.o.Account != nil, into)
		}
		if err == nil {
			err = fault.New(fault.Unavailable, "the image service at %s answered with status %d", server, status)
		}
		if try >= c.o.Retries || ctx.Err() != nil {
			return err
		}
		c.wait(ctx)
	}
}

func (c *Client) servers(ctx context.Context) ([]string, error) {
	if len(c.o.Servers) > 0 {
		return c.o.Servers, nil
	}
	address, err := c.o.Account.Locate(serviceType)(ctx)
	if err != nil {
		return nil, err
	}
	return []string{address}, nil
}

// request returns a request for an address with the caller: the account of the configuration, or the caller of the
// request. An image service without accounts trusts the headers other than X-Auth-Token.
func (c *Client) request(ctx context.Context, who identity.Identity, token, address string) (*http.Request, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, address, nil)
	if err != nil {
		return nil, fault.New(fault.Unavailable, "the image service cannot be called: %w", err)
	}
	h := request.Header
	h.Set("Accept", "application/json")
	h.Set("User-Agent", "berth")
	switch {
	case c.o.Account != nil:
		return request, c.o.Account.Sign(request)
	case c.o.Token != "":
		h.Set("X-Auth-Token", c.o.Token)
		return request, nil
	}
	h.Set("X-Auth-Token", token)
	h.Set("X-User-Id", who.User)
	h.Set("X-Tenant-Id", who.Project)
	h.Set("X-Roles", strings.Join(who.Roles, ","))
	h.Set("X-Identity-Status", "Confirmed")
	return request, nil
}

// renew discards the token of a request that was answered with 401, and reports whether the account gets a new one.
func (c *Client) renew(request *http.Request) bool {
	return c.o.Account != nil && c.o.Account.Renew(request)
}

func (c *Client) once(request *http.Request) (status int, body []byte, err error) {
	done := trace.Call(request.Context(), request)
	response, err := c.o.HTTP.Do(request)
	if err != nil {
		done(0)
	} else {
		done(response.StatusCode)
		defer response.Body.Close()
		body, err = io.ReadAll(io.LimitReader(response.Body, maxAnswer))
	}
	if err != nil {
		if cause, ok := errors.AsType[*url.Error](err); ok {
			err = cause.Err // without the address, which the sentence has
		}
		return 0, nil, fault.New(fault.Unavailable, "the image service at %s does not answer: %w",
			request.URL.Scheme+"://"+request.URL.Host, err)
	}
	return response.StatusCode, body, nil
}

// readAnswer decodes an answer of the image service. signed: the call used the account of the configuration.
func readAnswer(server, path string, status int, body []byte, signed bool, into any) error {
	switch {
	case status == http.StatusNotFound:
		return fault.New(fault.NotFound, "the image service has nothing at %s", path)
	case status == http.StatusUnauthorized && signed, status == http.StatusForbidden && signed:
		return fault.New(fault.Unavailable, "the image service at %s does not let the account of [glance] read images "+
			"(status %d); correct auth_type, username and password there, or give the account a role that may read images",
			server, status)
	case status == http.StatusUnauthorized, status == http.StatusForbidden:
		return fault.New(fault.Forbidden, "the image service at %s does not let the caller in (status %d); if it does "+
			"not know the callers of compute, write an account (auth_type) in [glance]", server, status)
	case status != http.StatusOK:
		return fault.New(fault.Unavailable, "the image service at %s answered with status %d, which the Image API v2 "+
			"does not have; check [glance]", server, status)
	}
	if err := json.Unmarshal(body, into); err != nil {
		return fault.New(fault.Unavailable, "the answer of the image service at %s is not valid: %w", server, err)
	}
	return nil
}

// withoutVersion returns the URL of a service without a version at its end, which catalogs and configurations may have.
func withoutVersion(address string) string {
	address = strings.TrimRight(address, "/")
	at := strings.LastIndexByte(address, '/')
	if at >= 0 && len(address) > at+2 && address[at+1] == 'v' && address[at+2] >= '0' && address[at+2] <= '9' {
		address = strings.TrimRight(address[:at], "/")
	}
	return address
}
