package read

import (
	"context"
	"net/http"
	"net/url"

	"github.com/openberth/berth/api/image"
)

// ImageProperties returns the properties of an image, as they are now. It returns fault.NotFound for an image that the
// account does not see.
func ImageProperties(ctx context.Context, client image.Catalogue, id string) (map[string]string, error) {
	var i image.Image
	_, err := client.REST.Do(ctx, http.MethodGet, "/v2/images/"+url.PathEscape(id), nil, &i)
	return i.Properties, err
}
