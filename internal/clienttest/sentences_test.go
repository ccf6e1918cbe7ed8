package clienttest

import (
	"io"
	"net/http"
	"strings"
	"testing"
)

// Sentences of refusals are everybody's own, but for those words in them that programs look for.
func sentences(t *testing.T, c *Cloud) {
	token := c.Admin(t)
	for _, region := range []string{Berth, Original} {
		ask := func(method, path, body string, want int) string {
			t.Helper()
			request, err := http.NewRequestWithContext(t.Context(), method, c.Placement[region]+path, strings.NewReader(body))
			if err != nil {
				t.Fatal(err)
			}
			request.Header.Set("X-Auth-Token", token)
			request.Header.Set("Content-Type", "application/json")
			request.Header.Set("OpenStack-API-Version", "placement 1.20")
			response, err := http.DefaultClient.Do(request)
			if err != nil {
				t.Fatal(err)
			}
			defer response.Body.Close()
			said, err := io.ReadAll(response.Body)
			if err != nil {
				t.Fatal(err)
			}
			if response.StatusCode != want {
				t.Fatalf("%s, %s %s: %d, should be %d: %s", region, method, path, response.StatusCode, want, said)
			}
			return string(said)
		}
		const id, other = "77777777-7777-4777-8777-777777777779", "88888888-8888-4888-8888-888888888889"
		ask("POST", "/resource_providers", `{"name": "said", "uuid": "`+id+`"}`, 200)
		for _, s := range []struct {
			who, words         string
			method, path, body string
			status             int
			without            bool
		}{
			// nova.scheduler.client.report: without the words, another has just made the same provider, which then must be
			// there.
			{"Nova", "Conflicting resource provider name:", "POST", "/resource_providers",
				`{"name": "said", "uuid": "` + other + `"}`, 409, false},
			{"Nova", "Conflicting resource provider name:", "POST", "/resource_providers",
				`{"name": "said too", "uuid": "` + id + `"}`, 409, true},
			// neutron_lib.placement.client: what of two things is missing.
			{"Neutron", "No resource provider with uuid", "GET", "/resource_providers/" + other + "/inventories/VCPU", "", 404,
				false},
			{"Neutron", "No resource provider with uuid", "DELETE", "/resource_providers/" + other + "/inventories", "", 404,
				false},
			{"Neutron", "No resource provider with uuid", "DELETE", "/resource_providers/" + other + "/inventories/VCPU", "",
				404, false},
			{"Neutron", "No inventory of class", "GET", "/resource_providers/" + id + "/inventories/VCPU", "", 404, false},
			{"Neutron", "No inventory of class", "DELETE", "/resource_providers/" + id + "/inventories/VCPU", "", 404, false},
		} {
			if said := ask(s.method, s.path, s.body, s.status); strings.Contains(said, s.words) == s.without {
				t.Errorf("%s, %s %s: %q is found: %t, %s relies on the contrary: %s", region, s.method, s.path, s.words, s.without,
					s.who, said)
			}
		}
		ask("DELETE", "/resource_providers/"+id, "", 204)
	}
}
