package server

import (
	"cmp"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/openberth/berth/api/edge"
	"github.com/openberth/berth/fault"
	"github.com/openberth/berth/image/store"
)

// The number of images in a page, as in Glance.
const (
	usualPage = 25
	maxPage   = 1000
)

// listControl are the query parameters of a list that are no filters of attributes.
var listControl = []string{"limit", "marker", "sort", "sort_key", "sort_dir", "visibility", "member_status"}

// sortKeys are the attributes that a list is sorted by.
var sortKeys = []string{"name", "status", "container_format", "disk_format", "size", "id", "created_at", "updated_at"}

// listed is an image with its document.
type listed struct {
	image store.Image
	doc   map[string]any
}

func (s *server) listImages(c *call) error {
	if err := c.Authorize("get_images", nil); err != nil {
		return err
	}
	q := c.R.URL.Query()
	var all []listed
	for _, i := range s.Store.List() {
		if ok, err := c.isListed(i, q); err != nil {
			return err
		} else if !ok {
			continue
		}
		doc := view(i)
		ok, err := matches(doc, i, q)
		if err != nil {
			return err
		}
		if ok {
			all = append(all, listed{i, doc})
		}
	}
	if err := sortImages(all, q); err != nil {
		return err
	}
	page, more, err := pageOf(all, q)
	if err != nil {
		return err
	}
	docs := []any{}
	for _, l := range page {
		docs = append(docs, l.doc)
	}
	q.Del("marker")
	answer := map[string]any{"images": docs, "schema": "/v2/schemas/images", "first": listLink(q)}
	if more {
		q.Set("marker", page[len(page)-1].image.ID)
		answer["next"] = listLink(q)
	}
	return c.WriteJSON(http.StatusOK, answer)
}

// listLink returns the link of a list.
func listLink(q url.Values) string {
	if len(q) == 0 {
		return "/v2/images"
	}
	return "/v2/images?" + q.Encode()
}

// isListed reports whether a list has the image for its caller. Without the filter visibility, a list has the images of
// the project, public images, and those that are shared with the project and that it has accepted.
func (c *call) isListed(i store.Image, q url.Values) (bool, error) {
	visibility, own := q.Get("visibility"), i.Owner == c.Who.Project
	switch visibility {
	case "", "all", "public", "community", "shared", "private":
	default:
		return false, fault.New(fault.Invalid, "visibility must be public, community, shared, private or all")
	}
	if visibility != "" && visibility != "all" && i.Visibility != visibility {
		return false, nil
	}
	status, wanted := i.Members[c.Who.Project].Status, cmp.Or(q.Get("member_status"), "accepted")
	switch wanted {
	case "accepted", "pending", "rejected", "all":
	default:
		return false, fault.New(fault.Invalid, "member_status must be accepted, pending, rejected or all")
	}
	switch {
	case own, i.Visibility == "public":
		return true, nil
	case i.Visibility == "community":
		return visibility == "community" || visibility == "all", nil
	case i.Visibility == "shared" && status != "":
		return wanted == "all" || wanted == status || c.Who.IsAdmin(), nil
	}
	return c.Who.IsAdmin(), nil
}

// matches reports whether an image passes all filters of a query. Hidden images are listed only by their filter.
func matches(doc map[string]any, i store.Image, q url.Values) (bool, error) {
	hidden := strings.ToLower(cmp.Or(q.Get("os_hidden"), "false"))
	if hidden != "true" && hidden != "false" {
		return false, fault.New(fault.Invalid, "os_hidden must be true or false")
	}
	if i.Hidden != (hidden == "true") {
		return false, nil
	}
	for name, values := range q {
		if slices.Contains(listControl, name) || name == "os_hidden" {
			continue
		}
		for _, value := range values {
			ok, err := passes(doc, i, name, value)
			if !ok || err != nil {
				return false, err
			}
		}
	}
	return true, nil
}

// passes applies one filter.
func passes(doc map[string]any, i store.Image, name, value string) (bool, error) {
	switch name {
	case "tag":
		return slices.Contains(i.Tags, value), nil
	case "size_min", "size_max":
		n, err := strconv.ParseInt(value, 10, 64)
		if err != nil || n < 0 {
			return false, fault.New(fault.Invalid, "%s must be a number of bytes", name)
		}
		return name == "size_min" && i.Size >= n || name == "size_max" && i.Size <= n, nil
	case "created_at", "updated_at":
		return comparesTime(fmt.Sprint(doc[name]), name, value)
	}
	have := edge.TextOf(doc[name])
	if list, ok := strings.CutPrefix(value, "in:"); ok {
		values, err := listOf(name, list)
		return slices.Contains(values, have), err
	}
	if name == "protected" {
		return have == strings.ToLower(value), nil
	}
	return have == value, nil
}

// listOf returns the values of a filter such as in:one,"two, with a comma".
func listOf(name, text string) ([]string, error) {
	values, err := csv.NewReader(strings.NewReader(text)).Read()
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, fault.New(fault.Invalid, "%s has a list that is not valid: %w; write in:ONE,TWO, and a value with a "+
			"comma in double quotes", name, err)
	}
	return values, nil
}

// comparesTime applies a filter such as gt:2026-01-01T00:00:00Z. Times of one form have the order of their texts.
func comparesTime(have, name, value string) (bool, error) {
	operator, text, ok := strings.Cut(value, ":")
	order := strings.Compare(have, strings.TrimSuffix(text, "Z")+"Z")
	switch {
	case !ok:
	case operator == "gt":
		return order > 0, nil
	case operator == "gte":
		return order >= 0, nil
	case operator == "lt":
		return order < 0, nil
	case operator == "lte":
		return order <= 0, nil
	case operator == "eq":
		return order == 0, nil
	case operator == "neq":
		return order != 0, nil
	}
	return false, fault.New(fault.Invalid, "%s must be an operator and a time, such as gt:2026-01-01T00:00:00Z; the "+
		"operators are gt, gte, eq, neq, lt and lte", name)
}

// sortImages sorts by sort (KEY:DIRECTION, ...) or by sort_key and sort_dir. The newest image is first otherwise.
func sortImages(all []listed, q url.Values) error {
	keys, dirs := q["sort_key"], q["sort_dir"]
	if text := q.Get("sort"); text != "" {
		if len(keys) > 0 || len(dirs) > 0 {
			return fault.New(fault.Invalid, "sort and sort_key are for the same; use one of them")
		}
		for part := range strings.SplitSeq(text, ",") {
			key, dir, _ := strings.Cut(part, ":")
			keys, dirs = append(keys, strings.TrimSpace(key)), append(dirs, cmp.Or(strings.TrimSpace(dir), "desc"))
		}
	}
	for n, key := range keys {
		if !slices.Contains(sortKeys, key) {
			return fault.New(fault.Invalid, "a list cannot be sorted by %q; use one of %s", key,
				strings.Join(sortKeys, ", "))
		}
		if n < len(dirs) && dirs[n] != "asc" && dirs[n] != "desc" {
			return fault.New(fault.Invalid, "the direction %q is not known; use asc or desc", dirs[n])
		}
	}
	if len(dirs) > 1 && len(dirs) != len(keys) {
		return fault.New(fault.Invalid, "there are %d sort_key and %d sort_dir; write one sort_dir for each", len(keys),
			len(dirs))
	}
	slices.SortStableFunc(all, func(a, b listed) int {
		for n, key := range keys {
			order := compareBy(key, a, b)
			if len(dirs) == 0 || dirs[min(n, len(dirs)-1)] == "desc" {
				order = -order
			}
			if order != 0 {
				return order
			}
		}
		return 0
	})
	return nil
}

func compareBy(key string, a, b listed) int {
	if key == "size" {
		return cmp.Compare(a.image.Size, b.image.Size)
	}
	return strings.Compare(edge.TextOf(a.doc[key]), edge.TextOf(b.doc[key]))
}

// pageOf returns the page of a query, and whether there are more images after it.
func pageOf(all []listed, q url.Values) (page []listed, more bool, err error) {
	size := usualPage
	if text := q.Get("limit"); text != "" {
		if size, err = strconv.Atoi(text); err != nil || size < 0 {
			return nil, false, fault.New(fault.Invalid, "limit must be a number of images")
		}
		size = min(size, maxPage)
	}
	if marker := q.Get("marker"); marker != "" {
		at := slices.IndexFunc(all, func(l listed) bool { return l.image.ID == marker })
		if at < 0 {
			return nil, false, fault.New(fault.Invalid, "marker %q names an image that this list does not have", marker)
		}
		all = all[at+1:]
	}
	return all[:min(size, len(all))], len(all) > size && size > 0, nil
}
