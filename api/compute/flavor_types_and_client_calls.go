package compute

import (
	"context"
	"encoding/json"
	"net/http"
	"net/url"
	"strconv"

	"github.com/openberth/berth/fault"
)

// Flavor is the size of servers and their other requirements. RAM in MiB, disks in GiB.
type Flavor struct {
	ID        string   `json:"id"`
	Name      string   `json:"name"`
	VCPUs     int      `json:"vcpus"`
	RAM       int      `json:"ram"`
	Disk      int      `json:"disk"`
	Ephemeral int      `json:"OS-FLV-EXT-DATA:ephemeral"`
	Swap      Swap     `json:"swap"`
	RXTX      *float64 `json:"rxtx_factor,omitempty"` // until 2.101
	Public    bool     `json:"os-flavor-access:is_public"`
	Disabled  *bool    `json:"OS-FLV-DISABLED:disabled,omitempty"` // until 2.101
	Links     []Link   `json:"links"`

	*Described                   // 2.55
	ExtraSpecs map[string]string `json:"extra_specs,omitzero"` // 2.61
}

// Swap is the size of the swap in MiB. NoSwap is 0 as an empty text, as the API has it before 2.75.
type Swap int

// NoSwap is how a size of 0 is encoded before 2.75.
const NoSwap Swap = -1

// MarshalJSON encodes the size.
func (s Swap) MarshalJSON() ([]byte, error) {
	if s == NoSwap {
		return []byte(`""`), nil
	}
	return strconv.AppendInt(nil, int64(s), 10), nil
}

// UnmarshalJSON decodes a number or "".
func (s *Swap) UnmarshalJSON(text []byte) error {
	if string(text) == `""` {
		*s = 0
		return nil
	}
	return json.Unmarshal(text, (*int)(s))
}

// CreateFlavor is a request to create a flavor. If ID is empty the service generates one.
type CreateFlavor struct {
	ID          string  `json:"id,omitempty"`
	Name        string  `json:"name"`
	VCPUs       int     `json:"vcpus"`
	RAM         int     `json:"ram"`  // MiB
	Disk        int     `json:"disk"` // GiB
	Description *string `json:"description,omitempty"`
}

// Flavors lists all flavors in detail, with their extra specs.
func (c *Client) Flavors(ctx context.Context) ([]Flavor, error) {
	var all []Flavor
	q := url.Values{"limit": {strconv.Itoa(pageSize)}, "is_public": {"None"}}
	for range maxPages {
		var page struct {
			Flavors []Flavor `json:"flavors"`
			Next    []Link   `json:"flavors_links"` // of a service whose pages are smaller
		}
		if _, err := c.REST.Do(ctx, http.MethodGet, "/v2.1/flavors/detail?"+q.Encode(), nil, &page); err != nil {
			return nil, err
		}
		all = append(all, page.Flavors...)
		if len(page.Flavors) == 0 || len(page.Flavors) < pageSize && len(page.Next) == 0 {
			return all, nil
		}
		q.Set("marker", page.Flavors[len(page.Flavors)-1].ID)
	}
	return nil, fault.New(fault.Internal, "the list of flavors does not end after %d pages", maxPages)
}

// Flavor reads one flavor by id or by name.
func (c *Client) Flavor(ctx context.Context, idOrName string) (Flavor, error) {
	var out struct {
		Flavor Flavor `json:"flavor"`
	}
	_, err := c.REST.Do(ctx, http.MethodGet, "/v2.1/flavors/"+url.PathEscape(idOrName), nil, &out)
	if err == nil && out.Flavor.ID != "" || err != nil && !fault.Is(err, fault.NotFound) {
		return out.Flavor, err // a name such as "detail" leads to an answer that is not a flavor
	}
	all, err := c.Flavors(ctx)
	if err != nil {
		return Flavor{}, err
	}
	var known []string
	for _, f := range all {
		if f.Name == idOrName {
			return f, nil
		}
		known = append(known, f.Name)
	}
	return Flavor{}, fault.New(fault.NotFound, "no flavor has the id or the name %q; %s", idOrName,
		fault.DidYouMean(idOrName, known, "`berth flavor list` shows all"))
}

// CreateFlavor creates a flavor.
func (c *Client) CreateFlavor(ctx context.Context, f CreateFlavor) (Flavor, error) {
	var out struct {
		Flavor Flavor `json:"flavor"`
	}
	_, err := c.REST.Do(ctx, http.MethodPost, "/v2.1/flavors", map[string]any{"flavor": f}, &out)
	return out.Flavor, err
}

// DescribeFlavor changes the description of a flavor; an empty text removes it.
func (c *Client) DescribeFlavor(ctx context.Context, id, description string) error {
	var text *string
	if description != "" {
		text = &description
	}
	body := map[string]any{"flavor": Described{Description: text}}
	_, err := c.REST.Do(ctx, http.MethodPut, "/v2.1/flavors/"+url.PathEscape(id), body, nil)
	return err
}

// DeleteFlavor removes a flavor. Servers made from it keep what they have.
func (c *Client) DeleteFlavor(ctx context.Context, id string) error {
	_, err := c.REST.Do(ctx, http.MethodDelete, "/v2.1/flavors/"+url.PathEscape(id), nil, nil)
	return err
}

func extraSpecs(id string) string { return "/v2.1/flavors/" + url.PathEscape(id) + "/os-extra_specs" }

// ExtraSpecs reads the extra specs of a flavor.
func (c *Client) ExtraSpecs(ctx context.Context, id string) (map[string]string, error) {
	var out struct {
		ExtraSpecs map[string]string `json:"extra_specs"`
	}
	_, err := c.REST.Do(ctx, http.MethodGet, extraSpecs(id), nil, &out)
	return out.ExtraSpecs, err
}

// SetExtraSpecs adds or changes extra specs of a flavor; the others stay.
func (c *Client) SetExtraSpecs(ctx context.Context, id string, specs map[string]string) error {
	if specs == nil {
		specs = map[string]string{}
	}
	_, err := c.REST.Do(ctx, http.MethodPost, extraSpecs(id), map[string]any{"extra_specs": specs}, nil)
	return err
}

// UnsetExtraSpec removes one extra spec of a flavor.
func (c *Client) UnsetExtraSpec(ctx context.Context, id, key string) error {
	_, err := c.REST.Do(ctx, http.MethodDelete, extraSpecs(id)+"/"+url.PathEscape(key), nil, nil)
	return err
}
