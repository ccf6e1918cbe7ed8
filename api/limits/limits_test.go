package limits_test

import (
	"maps"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/openberth/berth/api/limits"
	"github.com/openberth/berth/api/rest"
	"github.com/openberth/berth/fault"
)

// answers are those of an identity service, by path and query.
type answers map[string]string

func (a answers) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	text, ok := a[strings.TrimSuffix(r.URL.Path+"?"+r.URL.RawQuery, "?")]
	if !ok {
		w.WriteHeader(http.StatusForbidden)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	_, _ = w.Write([]byte(text))
}

func TestLimits(t *testing.T) {
	const own = "/limits?project_id=p&region_id=r&service_id=s"
	identity := answers{
		"/endpoints/e":                     `{"endpoint": {"service_id": "s", "region_id": "r"}}`,
		"/services?name=nova&type=compute": `{"services": [{"id": "s"}]}`,
		"/services?type=compute":           `{"services": [{"id": "s"}, {"id": "t"}]}`,
		"/registered_limits?service_id=s":  `{"registered_limits": [{"resource_name": "servers", "default_limit": 7}]}`,
		"/registered_limits?region_id=r&service_id=s": `{"registered_limits": [{"resource_name": "servers",
			"default_limit": 5}, {"resource_name": "class:VCPU", "default_limit": -1}]}`,
		own: `{"limits": [{"project_id": "p", "resource_name": "class:VCPU", "resource_limit": 4},
			{"project_id": "q", "resource_name": "servers", "resource_limit": 1}]}`,
	}
	server := httptest.NewServer(identity)
	defer server.Close()
	now := time.Now()
	client := func(s limits.Service) *limits.Client {
		c := limits.NewClient(&rest.Client{Base: server.URL}, s)
		c.Now = func() time.Time { return now }
		return c
	}
	c := client(limits.Service{Endpoint: "e"})
	check := func(c *limits.Client, project string, want map[string]int) {
		t.Helper()
		if got, err := c.Of(t.Context(), project); err != nil || !maps.Equal(got, want) {
			t.Errorf("project %q: %v %v, want %v", project, got, err, want)
		}
	}
	check(c, "", map[string]int{"servers": 5, "class:VCPU": -1})
	check(c, "p", map[string]int{"servers": 5, "class:VCPU": 4})
	check(client(limits.Service{Type: "compute", Name: "nova"}), "", map[string]int{"servers": 7})

	delete(identity, own)
	now = now.Add(limits.Lifetime - 1)
	check(c, "p", map[string]int{"servers": 5, "class:VCPU": 4})
	now = now.Add(1)
	for _, c := range []*limits.Client{c, client(limits.Service{Type: "compute"}), client(limits.Service{Endpoint: "x"})} {
		if got, err := c.Of(t.Context(), "p"); !fault.Is(err, fault.Unavailable) || !strings.Contains(err.Error(),
			"cannot be read from Keystone") {
			t.Errorf("got %v %v", got, err)
		}
	}
}
