package clienttest

import (
	"io"
	"net/http"
	"strings"
	"testing"
)

// compareErrorTexts tests the words in error texts that other programs search for. The texts are otherwise different.
func compareErrorTexts(t *testing.T, c *Cloud) {
	token := c.Admin(t)
	for _, region := range []string{Berth, Original} {
		send := func(method, path, body string, want int) string {
			t.Helper()
			request, err := http.NewRequestWithContext(t.Context(), method, c.Placements[region]+path, strings.NewReader(body))
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
			text, err := io.ReadAll(response.Body)
			if err != nil {
				t.Fatal(err)
			}
			if response.StatusCode != want {
				t.Fatalf("%s, %s %s: status %d, want %d: %s", region, method, path, response.StatusCode, want, text)
			}
			return string(text)
		}
		const id, other = "77777777-7777-4777-8777-777777777779", "88888888-8888-4888-8888-888888888889"
		send("POST", "/resource_providers", `{"name": "text", "uuid": "`+id+`"}`, 200)
		for _, s := range []struct {
			client, words      string
			method, path, body string
			status             int
			without            bool
		}{
			// Nova searches for these words to distinguish a conflict of names from a provider that was created at the
			// same time.
			{"Nova", "Conflicting resource provider name:", "POST", "/resource_providers",
				`{"name": "text", "uuid": "` + other + `"}`, 409, false},
			{"Nova", "Conflicting resource provider name:", "POST", "/resource_providers",
				`{"name": "another text", "uuid": "` + id + `"}`, 409, true},
			// Neutron searches for these words to learn which of two objects is missing.
			{"Neutron", "No resource provider with uuid", "GET", "/resource_providers/" + other + "/inventories/VCPU", "", 404,
				false},
			{"Neutron", "No resource provider with uuid", "DELETE", "/resource_providers/" + other + "/inventories", "", 404,
				false},
			{"Neutron", "No resource provider with uuid", "DELETE", "/resource_providers/" + other + "/inventories/VCPU", "",
				404, false},
			{"Neutron", "No inventory of class", "GET", "/resource_providers/" + id + "/inventories/VCPU", "", 404, false},
			{"Neutron", "No inventory of class", "DELETE", "/resource_providers/" + id + "/inventories/VCPU", "", 404, false},
		} {
			if text := send(s.method, s.path, s.body, s.status); strings.Contains(text, s.words) == s.without {
				t.Errorf("%s, %s %s: contains %q: %t, but %s relies on the opposite: %s", region, s.method, s.path, s.words,
					s.without,
					s.client, text)
			}
		}
		send("DELETE", "/resource_providers/"+id, "", 204)
	}
}
