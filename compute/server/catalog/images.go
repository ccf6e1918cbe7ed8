package catalog

import (
	"cmp"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/openberth/berth/api/compute"
	"github.com/openberth/berth/api/edge"
	"github.com/openberth/berth/api/image"
	"github.com/openberth/berth/compute/server/request"
	"github.com/openberth/berth/fault"
)

// imageProxies are the handlers of images, which the Compute API has until 2.35. The image service has them.
type imageProxies struct {
	images Images // nil: there are none
}

// noImageChanges is why properties of images are not changed here.
const noImageChanges = "properties of images are changed in the image service"

// imageProxyRoutes returns the paths of images. They have no policy rule, as in Nova: the image service decides.
func imageProxyRoutes(p imageProxies) request.Routes {
	until := func(handle func(*request.Call) error) request.Method {
		return request.Until(compute.NoNetworkProxy, request.Open(handle))
	}
	refused := until(request.Refused(noImageChanges))
	return request.Routes{
		"/v2.1/images":        {http.MethodGet: until(p.list(imageSummary))},
		"/v2.1/images/detail": {http.MethodGet: until(p.list(imageView))},
		"/v2.1/images/{image}": {
			http.MethodGet: until(p.of(func(c *request.Call, i image.Image) error {
				return c.WriteJSON(http.StatusOK, map[string]any{"image": imageView(c, i)})
			})),
			http.MethodDelete: until(p.delete),
		},
		"/v2.1/images/{image}/metadata": {
			http.MethodGet: until(p.of(func(c *request.Call, i image.Image) error {
				return c.WriteJSON(http.StatusOK, map[string]any{"metadata": i.Properties})
			})),
			http.MethodPost: refused, http.MethodPut: refused,
		},
		"/v2.1/images/{image}/metadata/{key}": {
			http.MethodGet: until(p.of(showImageProperty)),
			http.MethodPut: refused, http.MethodDelete: refused,
		},
	}
}

// of returns the handler of a request about an image that the caller may see.
func (p imageProxies) of(handle func(*request.Call, image.Image) error) func(*request.Call) error {
	return func(c *request.Call) error {
		i, err := p.find(c)
		if err != nil {
			return err
		}
		return handle(c, i)
	}
}

// find returns the image of the path.
func (p imageProxies) find(c *request.Call) (i image.Image, err error) {
	id := c.R.PathValue("image")
	missing := fault.New(fault.NotFound, "Image %s could not be found.", edge.Clip(id))
	if p.images == nil || !request.IsUUID(id) {
		return i, missing
	}
	i, err = p.images.Image(c.R.Context(), c.Who, c.R.Header.Get("X-Auth-Token"), id)
	if fault.Is(err, fault.NotFound) {
		return i, missing
	}
	return i, err
}

// delete is DELETE /v2.1/images/{image}.
func (p imageProxies) delete(c *request.Call) error {
	i, err := p.find(c)
	if err != nil {
		return err
	}
	return c.Done(http.StatusNoContent, p.images.Delete(c.R.Context(), c.Who, c.R.Header.Get("X-Auth-Token"), i.ID))
}

// showImageProperty is GET /v2.1/images/{image}/metadata/{key}.
func showImageProperty(c *request.Call, i image.Image) error {
	key := c.R.PathValue("key")
	value, has := i.Properties[key]
	if !has {
		return fault.New(fault.NotFound, "Metadata item was not found: image %s has no property %s", i.ID, edge.Clip(key))
	}
	return c.WriteJSON(http.StatusOK, map[string]any{"meta": map[string]string{key: value}})
}

// list returns the handler of a list of images.
func (p imageProxies) list(view func(*request.Call, image.Image) map[string]any) func(*request.Call) error {
	return func(c *request.Call) error {
		q := c.R.URL.Query()
		limit, marker, err := c.ReadPage(q)
		if err != nil {
			return err
		}
		keep, err := imageFilter(q)
		if err != nil {
			return err
		}
		var all []image.Image
		if p.images != nil {
			if all, err = p.images.Images(c.R.Context(), c.Who, c.R.Header.Get("X-Auth-Token")); err != nil {
				return err
			}
		}
		if marker != "" {
			at := slices.IndexFunc(all, func(i image.Image) bool { return i.ID == marker })
			if at < 0 {
				return fault.New(fault.Invalid, "marker [%s] not found", edge.Clip(marker))
			}
			all = all[at+1:]
		}
		views := []map[string]any{}
		last := ""
		for _, i := range all {
			if len(views) < limit && keep(i) {
				views, last = append(views, view(c, i)), i.ID
			}
		}
		body := map[string]any{"images": views}
		if next := c.NextLinks(limit, len(views), last); next != nil {
			body["images_links"] = next
		}
		return c.WriteJSON(http.StatusOK, body)
	}
}

// imageFilter reads the filters of a list: name, status, minDisk, minRam, server, type and changes-since.
func imageFilter(q url.Values) (func(image.Image) bool, error) {
	least := map[string]int{}
	for _, key := range []string{"minDisk", "minRam"} {
		if text := q.Get(key); text != "" {
			n, err := strconv.Atoi(text)
			if err != nil {
				return nil, fault.New(fault.Invalid, "%s must be a whole number; it is %q", key, edge.Clip(text))
			}
			least[key] = n
		}
	}
	var since time.Time
	if text := q.Get("changes-since"); text != "" {
		var err error
		if since, err = request.ParseTime(text); err != nil {
			return nil, err
		}
	}
	server := q.Get("server")
	server = server[strings.LastIndexByte(server, '/')+1:] // it may be the link of the server
	return func(i image.Image) bool {
		name, status, kind := q.Get("name"), q.Get("status"), q.Get("type")
		updated, _ := time.Parse(time.RFC3339, i.Updated)
		return (name == "" || name == i.Name) && (status == "" || strings.EqualFold(status, imageStatus(i))) &&
			(kind == "" || strings.EqualFold(kind, cmp.Or(i.Properties["image_type"], "image"))) &&
			(server == "" || server == i.Properties["instance_uuid"]) &&
			i.MinDisk >= least["minDisk"] && i.MinRAM >= least["minRam"] && !updated.Before(since)
	}, nil
}

// imageStatus returns the status of an image in the words of the Compute API.
func imageStatus(i image.Image) string {
	switch i.Status {
	case image.Active:
		return "ACTIVE"
	case "queued", "saving", "uploading", "importing":
		return "SAVING"
	case "deleted", "pending_delete":
		return "DELETED"
	case "killed":
		return "ERROR"
	}
	return "UNKNOWN"
}

// imageProgress are the percents that Nova shows for a status of the image service.
var imageProgress = map[string]int{"queued": 25, "saving": 50, image.Active: 100}

// imageSummary returns the view of an image in a list.
func imageSummary(c *request.Call, i image.Image) map[string]any {
	return map[string]any{"id": i.ID, "name": i.Name, "links": c.Links("images", i.ID)}
}

// imageView returns the view of an image in detail.
func imageView(c *request.Call, i image.Image) map[string]any {
	v := imageSummary(c, i)
	v["status"], v["progress"] = imageStatus(i), imageProgress[i.Status]
	v["created"], v["updated"] = i.Created, i.Updated
	v["minDisk"], v["minRam"], v["OS-EXT-IMG-SIZE:size"] = i.MinDisk, i.MinRAM, i.Size
	v["metadata"] = i.Properties
	if i.Properties["auto_disk_config"] != "" {
		v["OS-DCF:diskConfig"] = "MANUAL"
		if auto, _ := request.Style.Bool(i.Properties["auto_disk_config"]); auto {
			v["OS-DCF:diskConfig"] = "AUTO"
		}
	}
	if server := i.Properties["instance_uuid"]; server != "" {
		v["server"] = map[string]any{"id": server, "links": c.Links("servers", server)}
	}
	return v
}
