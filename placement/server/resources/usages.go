package resources

import (
	"net/http"
	"net/url"
	"regexp"
	"time"

	api "github.com/openberth/berth/api/placement"
	"github.com/openberth/berth/fault"
	"github.com/openberth/berth/placement/server/request"
	"github.com/openberth/berth/placement/store"
	"github.com/openberth/berth/resource"
)

func providerUsages(c *request.Call) error {
	all, err := c.Service.Store.ProviderUsages(c.Context(), c.Provider())
	if err != nil {
		return err
	}
	c.SetModified(time.Time{})
	return c.SendJSON(http.StatusOK, api.UsagesDoc{Generation: all.Generation, Usages: all.Used})
}

// totalUsages handles GET /usages: the usage of all consumers of a project.
func totalUsages(c *request.Call) error {
	q, err := c.Query()
	if err != nil {
		return err
	}
	filter, err := usageFilter(c, q)
	if err != nil {
		return err
	}
	list, err := c.Service.Store.Usages(c.Context(), filter)
	if err != nil {
		return err
	}
	c.SetModified(time.Time{})
	if c.Microversion < request.SinceConsumerTypes {
		sum := resource.Amounts{}
		for _, u := range list {
			for class, n := range u.Used {
				sum[class] += n
			}
		}
		return c.SendJSON(http.StatusOK, request.Object{"usages": sum})
	}
	byType := make(map[string]request.Object, len(list))
	for _, u := range list {
		d := request.Object{"consumer_count": u.Consumers}
		for class, n := range u.Used {
			d[string(class)] = n
		}
		byType[u.ConsumerType] = d
	}
	return c.SendJSON(http.StatusOK, request.Object{"usages": byType})
}

// consumerTypeWord matches the values of consumer_type in a query. As in the original, the pattern does not anchor the
// end of `all`.
var consumerTypeWord = regexp.MustCompile(`^[A-Z0-9_]+$|^all|^unknown$`)

// usageFilter parses the query of GET /usages.
func usageFilter(c *request.Call, q url.Values) (store.UsageFilter, error) {
	filter := store.UsageFilter{ConsumerType: "all"}
	if c.Microversion >= request.SinceConsumerTypes {
		filter.ConsumerType = ""
	}
	for key, values := range q {
		last := values[len(values)-1]
		switch {
		case key == "project_id":
			filter.Project = last
		case key == "user_id":
			filter.User = last
		case key == "consumer_type" && c.Microversion >= request.SinceConsumerTypes &&
			consumerTypeWord.MatchString(last):
			filter.ConsumerType = last
		default:
			return filter, fault.New(fault.Invalid,
				"Invalid query string parameters: %s=%q is not valid at microversion %s", key, last, c.Microversion)
		}
		if last == "" || len([]rune(last)) > 255 {
			return filter, fault.New(fault.Invalid, "Invalid query string parameters: %s must have 1 to 255 characters",
				key)
		}
	}
	if filter.Project == "" {
		return filter, fault.New(fault.Invalid, "Invalid query string parameters: project_id is required")
	}
	return filter, nil
}
