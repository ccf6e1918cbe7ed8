package operator

import (
	"net/http"

	"github.com/openberth/berth/compute/policies"
	"github.com/openberth/berth/compute/server/request"
)

const noAggregates = "Berth has no host aggregates; restrict servers to hosts with traits in the flavor"

// aggregateRoutes returns the paths of host aggregates, of which there are none.
func aggregateRoutes() request.Routes {
	return request.Routes{
		"/v2.1/os-aggregates": {
			http.MethodGet:  request.Guarded(policies.ListAggregates, request.Empty("aggregates")),
			http.MethodPost: request.Guarded(policies.CreateAggregate, request.Refused(noAggregates)),
		},
		"/v2.1/os-aggregates/{id}": {
			http.MethodGet:    request.Guarded(policies.ShowAggregate, request.Refused(noAggregates)),
			http.MethodPut:    request.Guarded(policies.UpdateAggregate, request.Refused(noAggregates)),
			http.MethodDelete: request.Guarded(policies.DeleteAggregate, request.Refused(noAggregates)),
		},
		"/v2.1/os-aggregates/{id}/action": {
			http.MethodPost: request.Guarded(policies.AddAggregateHost, request.Refused(noAggregates)),
		},
	}
}
