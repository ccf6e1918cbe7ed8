package lifecycle

import (
	"maps"
	"slices"
	"time"

	"github.com/openberth/berth/pci"
	"github.com/openberth/berth/provider"
)

// countClaim records that the claim of the first choice begins.
func countClaim(s Server, now time.Time) Server {
	s.Try++
	return addHistory(s, now, "claiming "+describeChoice(s.Choices[0], s.Requests))
}

// excludeHost records that the guest failed on a host, so that it is not chosen again.
func excludeHost(s Server, host, message string) Server {
	s.FailedHosts = maps.Clone(s.FailedHosts)
	if s.FailedHosts == nil {
		s.FailedHosts = map[string]string{}
	}
	s.FailedHosts[host] = message
	return s
}

// WithProviders returns the requests with the provider that Placement chose for each device, as Nova records them in
// InstancePCIRequest objects. A request without groups in the mappings gets no provider.
func WithProviders(requests []pci.Request, mappings map[string][]provider.ID) []pci.Request {
	out := slices.Clone(requests)
	for i := range out {
		out[i].Providers = nil
		for n := range out[i].Count {
			if chosen := mappings[out[i].GroupSuffix(n)]; len(chosen) > 0 {
				out[i].Providers = append(out[i].Providers, chosen[0])
			}
		}
	}
	return out
}
