package request

import (
	"net/url"
	"strconv"

	"github.com/openberth/berth/compute/store"
	"github.com/openberth/berth/fault"
)

// MaxLimit is the maximum length of a page of a list.
const MaxLimit = 1000

// ReadPage reads limit and marker.
func (c *Call) ReadPage(q url.Values) (limit int, marker string, err error) {
	limit = MaxLimit
	if text := q.Get("limit"); q.Has("limit") {
		n, err := strconv.Atoi(text)
		if err != nil || n < 0 {
			return 0, "", fault.New(fault.Invalid, "limit must be a non-negative integer; it is %q", text)
		}
		limit = min(n, MaxLimit)
	}
	return limit, q.Get("marker"), nil
}

// Collect reads pages from a store until it has limit rows for which keep returns true, or there are no more rows.
func Collect[T any](limit int, page func(limit int, last *T) ([]T, error), keep func(T) bool) ([]T, error) {
	var found []T
	var last *T
	for len(found) < limit {
		rows, err := page(store.MaxPage, last)
		if err != nil {
			return nil, err
		}
		for i := range rows {
			if keep(rows[i]) && len(found) < limit {
				found = append(found, rows[i])
			}
		}
		if len(rows) < store.MaxPage {
			return found, nil
		}
		last = &rows[len(rows)-1]
	}
	return found, nil
}
