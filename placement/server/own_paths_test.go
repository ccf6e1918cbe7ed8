package server

import (
	"strings"
	"testing"

	"github.com/openberth/berth/internal/openapi"
)

// docs/berth-api/placement.yaml describes each path of Berth's own, with its rule.
func TestOwnPathsAreDescribed(t *testing.T) {
	own := map[string]string{}
	for _, r := range (&Server{}).routes() {
		for method, m := range r.Methods {
			if strings.HasPrefix(r.Path, "/berth/v1/") {
				own[method+" "+r.Path] = m.Rule
			}
		}
	}
	for _, difference := range openapi.Differences("placement", own) {
		t.Error(difference)
	}
}
