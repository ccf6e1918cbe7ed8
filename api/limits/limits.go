// Package limits reads Keystone's unified limits: the registered limits of a service, which apply to all projects, and
// the limits of projects.
package limits

import (
	"context"
	"net/http"
	"net/url"
	"sync"
	"time"

	"github.com/openberth/berth/api/rest"
	"github.com/openberth/berth/fault"
)

// Service names the service whose limits are read: by one of its endpoints, or by its type or name and a region.
type Service struct {
	Endpoint           string // [oslo_limit] endpoint_id; the others are not used with it
	Type, Name, Region string // [oslo_limit] endpoint_service_type, endpoint_service_name, endpoint_region_name
}

// Lifetime is how long limits that were read are used.
const Lifetime = 10 * time.Second

// Client reads limits. It is safe for concurrent use.
type Client struct {
	REST    *rest.Client // its base ends in /v3
	Service Service
	Now     func() time.Time

	mu    sync.Mutex
	found *found                // nil: not looked up yet
	cache map[string]cacheEntry // by project
}

// found is a service and a region as Keystone knows them; an empty region matches all.
type found struct{ service, region string }

type cacheEntry struct {
	limits map[string]int
	read   time.Time
}

// NewClient returns a client that has read nothing.
func NewClient(client *rest.Client, service Service) *Client {
	return &Client{REST: client, Service: service, Now: time.Now, cache: map[string]cacheEntry{}}
}

// Of returns the limits of a project by the name of the resource, not older than Lifetime: those of the project, and
// the registered ones of other resources. An empty project has the registered limits. -1 is unlimited. It returns
// fault.Unavailable if Keystone does not answer or refuses the account.
func (c *Client) Of(ctx context.Context, project string) (map[string]int, error) {
	c.mu.Lock()
	cached, ok := c.cache[project]
	c.mu.Unlock()
	if ok && c.Now().Sub(cached.read) < Lifetime {
		return cached.limits, nil
	}
	began := c.Now()
	limits, err := c.read(ctx, project)
	if err != nil {
		return nil, fault.New(fault.Unavailable, "the limits of project %s cannot be read from Keystone: %w; check "+
			"[oslo_limit], whose account needs the role reader with system scope", project, err)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for other, entry := range c.cache {
		if began.Sub(entry.read) >= Lifetime {
			delete(c.cache, other)
		}
	}
	c.cache[project] = cacheEntry{limits, began}
	return limits, nil
}

// read asks Keystone.
func (c *Client) read(ctx context.Context, project string) (map[string]int, error) {
	of, err := c.find(ctx)
	if err != nil {
		return nil, err
	}
	q := url.Values{"service_id": {of.service}}
	if of.region != "" {
		q.Set("region_id", of.region)
	}
	var registered struct {
		Limits []struct {
			Resource string `json:"resource_name"`
			Limit    int    `json:"default_limit"`
		} `json:"registered_limits"`
	}
	if err := c.get(ctx, "/registered_limits", q, &registered); err != nil {
		return nil, err
	}
	limits := map[string]int{}
	for _, l := range registered.Limits {
		limits[l.Resource] = l.Limit
	}
	if project == "" {
		return limits, nil
	}
	q.Set("project_id", project)
	var own struct {
		Limits []struct {
			Project  string `json:"project_id"`
			Resource string `json:"resource_name"`
			Limit    int    `json:"resource_limit"`
		}
	}
	if err := c.get(ctx, "/limits", q, &own); err != nil {
		return nil, err
	}
	for _, l := range own.Limits {
		if l.Project == project {
			limits[l.Resource] = l.Limit
		}
	}
	return limits, nil
}

// find returns the service, which is looked up once.
func (c *Client) find(ctx context.Context) (found, error) {
	c.mu.Lock()
	known := c.found
	c.mu.Unlock()
	if known != nil {
		return *known, nil
	}
	var of found
	var err error
	if c.Service.Endpoint != "" {
		of, err = c.findEndpoint(ctx)
	} else {
		of, err = c.findService(ctx)
	}
	if err != nil {
		return found{}, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.found = &of
	return of, nil
}

func (c *Client) findEndpoint(ctx context.Context) (found, error) {
	var answer struct {
		Endpoint struct {
			Service string `json:"service_id"`
			Region  string `json:"region_id"`
		}
	}
	err := c.get(ctx, "/endpoints/"+url.PathEscape(c.Service.Endpoint), nil, &answer)
	return found{answer.Endpoint.Service, answer.Endpoint.Region}, err
}

func (c *Client) findService(ctx context.Context) (found, error) {
	q := url.Values{}
	for key, value := range map[string]string{"type": c.Service.Type, "name": c.Service.Name} {
		if value != "" {
			q.Set(key, value)
		}
	}
	var answer struct{ Services []struct{ ID string } }
	if err := c.get(ctx, "/services", q, &answer); err != nil {
		return found{}, err
	}
	if len(answer.Services) != 1 {
		return found{}, fault.New(fault.Unavailable, "Keystone has %d services of type %q with the name %q; write "+
			"[oslo_limit] endpoint_id", len(answer.Services), c.Service.Type, c.Service.Name)
	}
	return found{answer.Services[0].ID, c.Service.Region}, nil
}

func (c *Client) get(ctx context.Context, path string, q url.Values, into any) error {
	if len(q) > 0 {
		path += "?" + q.Encode()
	}
	_, err := c.REST.Do(ctx, http.MethodGet, path, nil, into)
	return err
}
