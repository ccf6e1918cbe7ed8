package server

import (
	"strings"
	"testing"

	"github.com/openberth/berth/api/eventstream"
	"github.com/openberth/berth/internal/openapi"
)

// docs/berth-api/compute.yaml describes each path of Berth's own, with its rule.
func TestOwnPathsAreDescribed(t *testing.T) {
	own := map[string]string{}
	for path, methods := range newServer(Options{Streams: Streams{Feed: &eventstream.Feed{}}}).guardedRoutes() {
		for method, m := range methods {
			if strings.HasPrefix(path, "/berth/v1/") {
				own[method+" "+path] = m.Rule
			}
		}
	}
	for _, difference := range openapi.Differences("compute", own) {
		t.Error(difference)
	}
}
