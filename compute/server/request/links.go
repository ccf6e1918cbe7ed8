package request

import "github.com/openberth/berth/api/compute"

// Links returns the two URLs of a resource: with the version (self) and without (bookmark). They have the project id if
// the path of the request has it.
func (c *Call) Links(collection, id string) []compute.Link {
	return []compute.Link{
		{Rel: "self", HRef: c.BaseURL() + c.versionPath() + c.projectPath() + "/" + collection + "/" + id},
		{Rel: "bookmark", HRef: c.BaseURL() + c.projectPath() + "/" + collection + "/" + id},
	}
}

// versionPath returns the path of the version of the API that the request has.
func (c *Call) versionPath() string {
	if c.V2 {
		return "/v2"
	}
	return "/v2.1"
}

func (c *Call) projectPath() string {
	if c.Project == "" {
		return ""
	}
	return "/" + c.Project
}

// NextLinks returns the link to the next page if this page is full, else nil.
func (c *Call) NextLinks(limit, length int, lastID string) []compute.Link {
	if limit == 0 || length < limit {
		return nil
	}
	q := c.R.URL.Query()
	q.Set("marker", lastID)
	path := c.R.URL.Path[len("/v2.1"):]
	return []compute.Link{{Rel: "next", HRef: c.BaseURL() + c.versionPath() + c.projectPath() + path + "?" + q.Encode()}}
}
