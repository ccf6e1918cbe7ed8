package cli

import (
	"context"
	"fmt"
	"net/http"
	"net/url"

	"github.com/openberth/berth/fault"
)

// readImage returns an image.
func readImage(ctx context.Context, g *Globals, id string) (document, error) {
	return sendImage(ctx, g, http.MethodGet, "/v2/images/"+pathEscape(id), nil)
}

// sendImage sends a request and returns the object of its answer.
func sendImage(ctx context.Context, g *Globals, method, path string, body any) (document, error) {
	client := g.images().REST
	if method == http.MethodPatch {
		client = client.WithHeader("Content-Type", "application/openstack-images-v2.1-json-patch")
	}
	answer, err := client.Do(ctx, method, path, body, nil)
	if err != nil || len(answer.Body) == 0 {
		return nil, err
	}
	var got document
	err = decode(answer.Body, &got)
	return got.inUTC(), err
}

// listImages returns the images that a query selects.
func listImages(ctx context.Context, g *Globals, query url.Values) (all []document, err error) {
	query.Set("limit", "1000")
	for path := "/v2/images?" + query.Encode(); path != ""; {
		answer, err := g.images().REST.Do(ctx, http.MethodGet, path, nil, nil)
		if err != nil {
			return nil, err
		}
		var page struct {
			Images []document `json:"images"`
			Next   string     `json:"next"`
		}
		if err := decode(answer.Body, &page); err != nil {
			return nil, err
		}
		for _, one := range page.Images {
			all = append(all, one.inUTC())
		}
		path = page.Next
	}
	return all, nil
}

// imageAnywhere returns the id of an image by id or name: also of a hidden one, of one of the community, and of one
// that is shared with the project and not accepted.
func imageAnywhere(ctx context.Context, g *Globals, idOrName string) (string, error) {
	id, err := imageID(ctx, g, idOrName)
	if !fault.Is(err, fault.NotFound) {
		return id, err
	}
	for _, query := range []url.Values{{"os_hidden": {"true"}}, {"visibility": {"all"}, "member_status": {"all"}}} {
		query.Set("name", idOrName)
		all, failed := listImages(ctx, g, query)
		if failed != nil {
			return "", failed
		}
		if len(all) == 1 {
			return all[0].text("id"), nil
		}
		if len(all) > 1 {
			var ids []string
			for _, one := range all {
				ids = append(ids, one.text("id"))
			}
			return "", severalNames("image", idOrName, ids)
		}
	}
	return "", err
}

// sizeOf returns the size of an image in bytes; -1: it is not known.
func sizeOf(meta document) int64 {
	var size int64
	if _, err := fmt.Sscan(meta.text("size"), &size); err != nil {
		return -1
	}
	return size
}
