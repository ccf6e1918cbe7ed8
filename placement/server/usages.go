package server

import (
	"net/http"
	"net/url"
	"regexp"
	"time"

	api "github.com/openberth/berth/api/placement"
	"github.com/openberth/berth/fault"
	"github.com/openberth/berth/placement/store"
	"github.com/openberth/berth/resource"
)

func (c *call) providerUsages() error {
	all, err := c.server.store.ProviderUsages(c.Context(), c.provider())
	if err != nil {
		return err
	}
	c.setModified(time.Time{})
	return c.sendJSON(http.StatusOK, api.UsagesDoc{Generation: all.Generation, Usages: all.Used})
}

// totalUsages handles GET /usages: the usage of all consumers of a project.
func (c *call) totalUsages() error {
	q, err := c.query()
	if err != nil {
		return err
	}
	filter, err := c.usageFilter(q)
	if err != nil {
		return err
	}
	list, err := c.server.store.Usages(c.Context(), filter)
	if err != nil {
		return err
	}
	c.setModified(time.Time{})
	if c.version < sinceConsumerTypes {
		sum := resource.Amounts{}
		for _, u := range list {
			for class, n := range u.Used {
				sum[class] += n
			}
		}
		return c.sendJSON(http.StatusOK, object{"usages": sum})
	}
	byType := make(map[string]object, len(list))
	for _, u := range list {
		d := object{"consumer_count": u.Consumers}
		for class, n := range u.Used {
			d[string(class)] = n
		}
		byType[u.ConsumerType] = d
	}
	return c.sendJSON(http.StatusOK, object{"usages": byType})
}

// consumerTypeWord matches the values of consumer_type in a query. As in the original, the pattern does not anchor the
// end of `all`.
var consumerTypeWord = regexp.MustCompile(`^[A-Z0-9_]+$|^all|^unknown$`)

// usageFilter parses the query of GET /usages.
func (c *call) usageFilter(q url.Values) (store.UsageFilter, error) {
	filter := store.UsageFilter{ConsumerType: "all"}
	if c.version >= sinceConsumerTypes {
		filter.ConsumerType = ""
	}
	for key, values := range q {
		last := values[len(values)-1]
		switch {
		case key == "project_id":
			filter.Project = last
		case key == "user_id":
			filter.User = last
		case key == "consumer_type" && c.version >= sinceConsumerTypes && consumerTypeWord.MatchString(last):
			filter.ConsumerType = last
		default:
			return filter, fault.New(fault.Invalid,
				"Invalid query string parameters: %s=%q is not valid at microversion %s", key, last, c.version)
		}
		if last == "" || len([]rune(last)) > 255 {
			return filter, fault.New(fault.Invalid, "Invalid query string parameters: %s must have 1 to 255 characters", key)
		}
	}
	if filter.Project == "" {
		return filter, fault.New(fault.Invalid, "Invalid query string parameters: project_id is required")
	}
	return filter, nil
}
