package server

import "github.com/openberth/berth/api/compute"

// base returns the URL of the service that the client has used.
func (c *call) base() string {
	if c.R.TLS != nil {
		return "https://" + c.R.Host
	}
	return "http://" + c.R.Host
}

// links returns the two URLs of a resource: with the version (self) and without (bookmark). They have the project id if
// the path of the request has it.
func (c *call) links(collection, id string) []compute.Link {
	return []compute.Link{
		{Rel: "self", HRef: c.base() + "/v2.1" + c.prefix() + "/" + collection + "/" + id},
		{Rel: "bookmark", HRef: c.base() + c.prefix() + "/" + collection + "/" + id},
	}
}

func (c *call) prefix() string {
	if c.project == "" {
		return ""
	}
	return "/" + c.project
}

// nextLinks returns the link to the next page if this page is full, else nil.
func (c *call) nextLinks(limit, length int, lastID string) []compute.Link {
	if limit == 0 || length < limit {
		return nil
	}
	q := c.R.URL.Query()
	q.Set("marker", lastID)
	path := c.R.URL.Path[len("/v2.1"):]
	return []compute.Link{{Rel: "next", HRef: c.base() + "/v2.1" + c.prefix() + path + "?" + q.Encode()}}
}
