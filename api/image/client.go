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
	"github.com/openberth/berth/fault"
)

const (
	op           = "image.Client"
	maxAnswer    = 4 << 20          // bytes of an answer
	maxTime      = 30 * time.Second // that Image takes, all tries together
	betweenTries = 200 * time.Millisecond
	serviceType  = "image"
)

// Options are [glance].
type Options struct {
	Servers    []string           // endpoint_override or api_servers; none: the catalog that Account gets
	Account    *identity.Keystone // who asks; nil: the caller of the request, with the token that he sent
	Region     string             // region_name, of the catalog
	Interfaces []string           // valid_interfaces, of the catalog, the best first
	Retries    int                // num_retries: how often a call that failed is tried again, at the next of Servers
	HTTP       *http.Client       // with the certificates and the time-out of one call; nil: one with ten seconds
}

// Client asks one image service. It is safe for concurrent use.
type Client struct {
	o    Options
	time time.Duration

	first func(servers int) int // where to begin
	wait  func(context.Context) // before another try
}

// New makes a client. It asks nobody yet. Invalid when there is no way to find the image service.
func New(o Options) (*Client, error) {
	if len(o.Servers) == 0 && o.Account == nil {
		return nil, fault.New(fault.Invalid, op, "[glance] does not say where the image service is; write endpoint_override, or auth_type and the account "+
			"by which Keystone's catalog can be asked")
	}
	for _, server := range o.Servers {
		if u, err := url.Parse(server); err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" || u.User != nil {
			return nil, fault.New(fault.Invalid, op, "[glance] names the image service by something that is no address, or has a user and a password in it; write one such as http://controller:9292")
		}
	}
	if o.HTTP == nil {
		o.HTTP = &http.Client{Timeout: 10 * time.Second,
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }} // a token is for nobody else
	}
	return &Client{o: o, time: max(maxTime, o.HTTP.Timeout), first: rand.N[int], wait: func(ctx context.Context) {
		select {
		case <-ctx.Done():
		case <-time.After(betweenTries):
		}
	}}, nil
}

// Image reads an image on behalf of a caller. NotFound when there is none that he may see; Forbidden when the image service does not let him
// in; Unavailable, after half a minute at the latest, when it does not answer or not as its API says.
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
	missing := fault.New(fault.NotFound, op, "there is no image %s for project %s", id, who.Project)
	if i.Visibility != "shared" {
		return Image{}, missing
	}
	// Whether the project has accepted does not matter: that only lists the image.
	var member struct {
		ID string `json:"member_id"`
	}
	err := c.get(ctx, who, token, "/v2/images/"+url.PathEscape(id)+"/members/"+url.PathEscape(who.Project), &member)
	if fault.Is(err, fault.NotFound) || fault.Is(err, fault.Forbidden) || err == nil && (member.ID == "" || member.ID != who.Project) {
		return Image{}, missing
	}
	if err != nil {
		return Image{}, err
	}
	return i, nil
}

// get asks, at one server after the other when there are several, again when nobody answers.
func (c *Client) get(ctx context.Context, who identity.Identity, token, path string, into any) error {
	servers, err := c.servers(ctx)
	if err != nil {
		return err
	}
	first := c.first(len(servers))
	renewed := false
	for try := 0; ; try++ {
		header, own, err := c.header(ctx, who, token)
		if err != nil {
			return err
		}
		server := withoutVersion(servers[(first+try)%len(servers)])
		status, body, err := c.once(ctx, server+path, header)
		if status == http.StatusUnauthorized && own != "" && !renewed {
			c.o.Account.Forget(own)
			renewed = true
			try--
			continue
		}
		if err == nil && status < http.StatusInternalServerError {
			return readAnswer(server, path, status, body, own != "", into)
		}
		if err == nil {
			err = fault.New(fault.Unavailable, op, "the image service at %s answered with status %d", server, status)
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
	address, err := c.o.Account.Address(ctx, serviceType, c.o.Interfaces, c.o.Region)
	if err != nil {
		return nil, err
	}
	return []string{address}, nil
}

// header says who asks: the account of the configuration, whose token is own, or the caller as he came. An image service without Keystone
// believes the other headers.
func (c *Client) header(ctx context.Context, who identity.Identity, token string) (h http.Header, own string, err error) {
	h = http.Header{"Accept": {"application/json"}, "User-Agent": {"berth"}}
	if c.o.Account != nil {
		if own, err = c.o.Account.SignIn(ctx); err != nil {
			return nil, "", err
		}
		h.Set("X-Auth-Token", own)
		return h, own, nil
	}
	h.Set("X-Auth-Token", token)
	h.Set("X-User-Id", who.User)
	h.Set("X-Tenant-Id", who.Project)
	h.Set("X-Roles", strings.Join(who.Roles, ","))
	h.Set("X-Identity-Status", "Confirmed")
	return h, "", nil
}

func (c *Client) once(ctx context.Context, address string, header http.Header) (status int, body []byte, err error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, address, nil)
	if err != nil {
		return 0, nil, fault.New(fault.Unavailable, op, "the image service cannot be asked: %w", err)
	}
	request.Header = header
	response, err := c.o.HTTP.Do(request)
	if err == nil {
		defer response.Body.Close()
		body, err = io.ReadAll(io.LimitReader(response.Body, maxAnswer))
	}
	if err != nil {
		if cause, ok := errors.AsType[*url.Error](err); ok {
			err = cause.Err // without the address, which the sentence has
		}
		return 0, nil, fault.New(fault.Unavailable, op, "the image service at %s does not answer: %w", request.URL.Scheme+"://"+request.URL.Host, err)
	}
	return response.StatusCode, body, nil
}

// answer reads what the image service said. signed: it was asked with the account of the configuration.
func readAnswer(server, path string, status int, body []byte, signed bool, into any) error {
	switch {
	case status == http.StatusNotFound:
		return fault.New(fault.NotFound, op, "the image service has nothing at %s", path)
	case status == http.StatusUnauthorized && signed, status == http.StatusForbidden && signed:
		return fault.New(fault.Unavailable, op, "the image service at %s does not let the account of [glance] read images (status %d)", server, status)
	case status == http.StatusUnauthorized, status == http.StatusForbidden:
		return fault.New(fault.Forbidden, op, "the image service at %s does not let the caller in (status %d)", server, status)
	case status != http.StatusOK:
		return fault.New(fault.Unavailable, op, "the image service at %s answered with status %d, which is no answer of the Image API v2; check [glance]", server, status)
	}
	if err := json.Unmarshal(body, into); err != nil {
		return fault.New(fault.Unavailable, op, "the image service at %s answered with something else than its API promises: %w", server, err)
	}
	return nil
}
