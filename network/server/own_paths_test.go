package server

import (
	"strings"
	"testing"

	"github.com/openberth/berth/api/eventstream"
	"github.com/openberth/berth/internal/openapi"
	"github.com/openberth/berth/network/server/request"
)

// docs/berth-api/network.yaml describes each path of Berth's own, with its rule.
func TestOwnPathsAreDescribed(t *testing.T) {
	own := map[string]string{}
	for _, r := range routes(&request.Service{}, &eventstream.Feed{}) {
		for method, m := range r.Methods {
			if strings.HasPrefix(r.Path, "/berth/v1/") {
				own[method+" "+r.Path] = m.Rule
			}
		}
	}
	for _, difference := range openapi.Differences("network", own) {
		t.Error(difference)
	}
}
