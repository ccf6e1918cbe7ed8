package image

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"

	"github.com/openberth/berth/api/rest"
)

// CatalogType is the type of the service in Keystone's catalog.
const CatalogType = serviceType

// RootURL returns the address of an image service without the version that its URL may have in a catalog.
func RootURL(address string) string { return withoutVersion(address) }

// Listed is an image as an image service describes it to people. Size is null until it has data.
type Listed struct {
	ID         string   `json:"id"`
	Name       string   `json:"name"`
	Status     string   `json:"status"`
	Visibility string   `json:"visibility"`
	DiskFormat string   `json:"disk_format"`
	Size       *int64   `json:"size"`
	MinDisk    int      `json:"min_disk"` // GiB
	Owner      string   `json:"owner"`
	Tags       []string `json:"tags"`
	SHA512     string   `json:"os_hash_value"`
}

// Catalogue calls an image service for a person: it lists, creates, uploads and deletes images. Errors are faults.
type Catalogue struct{ REST *rest.Client }

// List returns all images that the caller sees, without hidden ones and community images of others.
func (c Catalogue) List(ctx context.Context) ([]Listed, error) {
	return c.list(ctx, "/v2/images?limit=1000&sort=name:asc,id:asc")
}

// ListAll returns all images that the caller sees, also hidden ones and community images of others.
func (c Catalogue) ListAll(ctx context.Context) ([]Listed, error) {
	const query = "/v2/images?limit=1000&sort=name:asc,id:asc&visibility=all&os_hidden="
	shown, err := c.list(ctx, query+"false")
	if err != nil {
		return nil, err
	}
	hidden, err := c.list(ctx, query+"true")
	return append(shown, hidden...), err
}

// list returns the images of a page and of those after it.
func (c Catalogue) list(ctx context.Context, path string) ([]Listed, error) {
	var all []Listed
	for path != "" {
		var page struct {
			Images []Listed `json:"images"`
			Next   string   `json:"next"`
		}
		if _, err := c.REST.Do(ctx, http.MethodGet, path, nil, &page); err != nil {
			return nil, err
		}
		all, path = append(all, page.Images...), page.Next
	}
	return all, nil
}

// Show returns an image.
func (c Catalogue) Show(ctx context.Context, id string) (i Listed, err error) {
	_, err = c.REST.Do(ctx, http.MethodGet, "/v2/images/"+url.PathEscape(id), nil, &i)
	return i, err
}

// Create creates an image without data from attributes of the API.
func (c Catalogue) Create(ctx context.Context, attributes map[string]any) (i Listed, err error) {
	_, err = c.REST.Do(ctx, http.MethodPost, "/v2/images", attributes, &i)
	return i, err
}

// Delete deletes an image.
func (c Catalogue) Delete(ctx context.Context, id string) error {
	_, err := c.REST.Do(ctx, http.MethodDelete, "/v2/images/"+url.PathEscape(id), nil, nil)
	return err
}

// Received returns how many bytes of an image's data the service has. Only Berth's image service has this request.
func (c Catalogue) Received(ctx context.Context, id string) (int64, error) {
	var answer struct {
		Received int64 `json:"received"`
	}
	_, err := c.REST.Do(ctx, http.MethodGet, "/berth/v1/images/"+url.PathEscape(id)+"/upload", nil, &answer)
	return answer.Received, err
}

// Upload sends the data of an image from a byte on; total is the size of all data, -1 if it is not known. From a byte
// other than 0 on, only Berth's image service accepts it.
func (c Catalogue) Upload(ctx context.Context, id string, data io.Reader, from, total int64) error {
	header := http.Header{"Content-Type": {"application/octet-stream"}}
	length := total
	if from > 0 {
		header.Set("Content-Range", fmt.Sprintf("bytes %d-%d/%d", from, total-1, total))
		length -= from
	}
	_, err := c.REST.DoData(ctx, http.MethodPut, "/v2/images/"+url.PathEscape(id)+"/file", header, data, length, nil)
	return err
}

// LocateRoot returns a function that returns RootURL of the address that locate returns; nil if locate is.
func LocateRoot(locate func(context.Context) (string, error)) func(context.Context) (string, error) {
	if locate == nil {
		return nil
	}
	return func(ctx context.Context) (string, error) {
		address, err := locate(ctx)
		return RootURL(strings.TrimRight(address, "/")), err
	}
}
