package request

import (
	"maps"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/openberth/berth/api/compute"
	"github.com/openberth/berth/fault"
)

// CheckQuery returns fault.Invalid if a query has a parameter that is not known.
func CheckQuery(q url.Values, known ...string) error {
	var unknown []string
	for _, key := range slices.Sorted(maps.Keys(q)) {
		if !slices.Contains(known, key) {
			unknown = append(unknown, "'"+key+"'")
		}
	}
	if len(unknown) == 0 {
		return nil
	}
	verb := "was"
	if len(unknown) > 1 {
		verb = "were"
	}
	return fault.New(fault.Invalid, "Additional properties are not allowed (%s %s unexpected)",
		strings.Join(unknown, ", "), verb)
}

// ChangesBetween reads changes-since and, since 2.66, changes-before; zero times: not given.
func ChangesBetween(c *Call, q url.Values) (since, before time.Time, err error) {
	if text := q.Get("changes-since"); text != "" {
		if since, err = ParseTime(text); err != nil {
			return since, before, err
		}
	}
	if text := q.Get("changes-before"); text != "" && c.Has(compute.ChangesBefore) {
		if before, err = ParseTime(text); err != nil {
			return since, before, err
		}
		if since.After(before) {
			return since, before, fault.New(fault.Invalid,
				"The value of changes-since must be less than or equal to changes-before.")
		}
	}
	return since, before, nil
}
