package placement

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/url"
	"time"

	"github.com/openberth/berth/api/rest"
	"github.com/openberth/berth/fault"
	"github.com/openberth/berth/hosttree"
	"github.com/openberth/berth/provider"
)

// Hosts is the answer of GET /berth/v1/hosts of Berth's Placement.
type Hosts struct {
	Hosts []hosttree.HostRow `json:"hosts"`
}

// Host is the answer of GET /berth/v1/hosts/{host} of Berth's Placement.
type Host struct {
	hosttree.HostRow
	Devices []hosttree.Device `json:"devices"`
}

// Devices is the answer of GET /berth/v1/devices of Berth's Placement, and of the path of one device, which has a row
// for each of its resource classes.
type Devices struct {
	Devices []hosttree.Device `json:"devices"`
}

// Hosts reads the hosts from Berth's Placement; fault.NotFound from another one.
func (c *Client) Hosts(ctx context.Context) ([]hosttree.HostRow, error) {
	return rows[hosttree.HostRow](ctx, c, "/berth/v1/hosts")
}

// Devices reads the devices of all hosts from Berth's Placement; fault.NotFound from another one.
func (c *Client) Devices(ctx context.Context) ([]hosttree.Device, error) {
	return rows[hosttree.Device](ctx, c, "/berth/v1/devices")
}

// TreeByID reads the tree of a provider with one request from Berth's Placement; fault.NotFound from another one, and
// if there is no such provider.
func (c *Client) TreeByID(ctx context.Context, id provider.ID) (tree Tree, err error) {
	_, err = c.REST.Do(ctx, http.MethodGet, "/berth/v1/trees/"+url.PathEscape(string(id)), nil, &tree)
	return tree, fault.Wrap("", err)
}

// rowsTime is the time limit for reading a list of rows, which may have many megabytes.
const rowsTime = 5 * time.Minute

// rows reads a list that is the only member of an object. It decodes while it reads: the list may be longer than an
// answer that is read whole. The list is never nil.
func rows[T any](ctx context.Context, c *Client, path string) ([]T, error) {
	ctx, cancel := context.WithTimeout(ctx, rowsTime)
	defer cancel()
	client, web := *c.REST, http.Client{}
	if client.HTTP != nil {
		web = *client.HTTP
	}
	web.Timeout, client.HTTP = 0, &web
	resp, err := client.Send(ctx, http.MethodGet, path, nil)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	if err := rest.AnswerFault(http.MethodGet, path, resp); err != nil {
		return nil, err
	}
	list, err := decodeRows[T](json.NewDecoder(bufio.NewReaderSize(resp.Body, 1<<20)))
	if err != nil {
		return nil, fault.New(fault.Unavailable, "cannot read the whole answer of Placement: %w; try again", err).
			Of("GET " + path)
	}
	return list, nil
}

// decodeRows decodes {"NAME":[ROW,…]}.
func decodeRows[T any](from *json.Decoder) ([]T, error) {
	list := []T{}
	if err := expect(from, json.Delim('{')); err != nil {
		return nil, err
	}
	if _, err := from.Token(); err != nil { // the name
		return nil, err
	}
	if err := expect(from, json.Delim('[')); err != nil {
		return nil, err
	}
	for from.More() {
		var row T
		if err := from.Decode(&row); err != nil {
			return nil, err
		}
		list = append(list, row)
	}
	if err := expect(from, json.Delim(']')); err != nil {
		return nil, err
	}
	return list, expect(from, json.Delim('}'))
}

// expect reads a token that must be the given one.
func expect(from *json.Decoder, want json.Token) error {
	switch got, err := from.Token(); {
	case err != nil:
		return err
	case got != want:
		return errors.New("it is not a list of Berth's Placement")
	}
	return nil
}
