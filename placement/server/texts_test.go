package server

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/google/uuid"

	"github.com/openberth/berth/internal/databases"
)

// On every database, any text in any part of a request is stored unchanged or refused. It never causes status 500.
func TestEveryTextIsStoredOrRefused(t *testing.T) {
	databases.Each(t, func(t *testing.T, fresh func(testing.TB) string) {
		w := newWorldOn(t, fresh(t))
		id, consumer := uuid.NewString(), uuid.NewString()
		w.must("1.39", "POST", "/resource_providers", fmt.Sprintf(`{"name":"host","uuid":%q}`, id))
		w.must("1.39", "PUT", "/resource_providers/"+id+"/inventories",
			`{"resource_provider_generation":0,"inventories":{"VCPU":{"total":1000}}}`)
		for _, text := range []string{"\x00", "a\x00b", "é", "名前", "🔥", "\u202e", "\ufffd", "\uffff", "\x7f", " ",
			"' OR 1=1 --", `\`, "%", "_", strings.Repeat("é", 200), strings.Repeat("🔥", 255), strings.Repeat("x", 5000)} {
			quoted, err := json.Marshal(text)
			if err != nil {
				t.Fatal(err)
			}
			q, in := string(quoted), url.QueryEscape(text)
			path := url.PathEscape(text)
			claim := func(project, user, kind string) string {
				return fmt.Sprintf(`{"allocations":{%q:{"resources":{"VCPU":1}}},"project_id":%s,"user_id":%s,`+
					`"consumer_generation":null,"consumer_type":%s}`, id, project, user, kind)
			}
			for _, r := range [][3]string{
				{"POST", "/resource_providers", `{"name":` + q + `}`},
				{"POST", "/resource_providers", `{"name":"x","uuid":` + q + `}`},
				{"POST", "/resource_providers", `{"name":"x","parent_provider_uuid":` + q + `}`},
				{"PUT", "/resource_providers/" + id, `{"name":` + q + `}`},
				{"GET", "/resource_providers?name=" + in, ""}, {"GET", "/resource_providers?uuid=" + in, ""},
				{"GET", "/resource_providers?in_tree=" + in, ""},
				{"GET", "/resource_providers?member_of=" + in, ""}, {"GET", "/resource_providers?required=" + in, ""},
				{"GET", "/resource_providers?resources=" + in + ":1", ""},
				{"GET", "/resource_providers/" + path, ""}, {"DELETE", "/resource_providers/" + path, ""},
				{"GET", "/resource_providers/" + path + "/usages", ""},
				{"GET", "/resource_providers/" + id + "/inventories/" + path, ""},
				{"DELETE", "/resource_providers/" + id + "/inventories/" + path, ""},
				{"PUT", "/resource_providers/" + id + "/aggregates", `{"resource_provider_generation":1,"aggregates":[` + q + `]}`},
				{"PUT", "/resource_providers/" + id + "/traits", `{"resource_provider_generation":1,"traits":[` + q + `]}`},
				{"POST", "/resource_providers/" + id + "/inventories", `{"resource_class":` + q + `,"total":1}`},
				{"PUT", "/resource_providers/" + id + "/inventories",
					`{"resource_provider_generation":1,"inventories":{` + q + `:{"total":1}}}`},
				{"GET", "/resource_classes/" + path, ""}, {"PUT", "/resource_classes/" + path, ""},
				{"DELETE", "/resource_classes/" + path, ""}, {"POST", "/resource_classes", `{"name":` + q + `}`},
				{"GET", "/traits?name=startswith:" + in, ""}, {"GET", "/traits?name=in:" + in, ""},
				{"GET", "/traits/" + path, ""}, {"PUT", "/traits/" + path, ""}, {"DELETE", "/traits/" + path, ""},
				{"GET", "/usages?project_id=" + in, ""}, {"GET", "/usages?project_id=p&user_id=" + in, ""},
				{"GET", "/usages?project_id=p&consumer_type=" + in, ""},
				{"GET", "/allocations/" + path, ""}, {"DELETE", "/allocations/" + path, ""},
				{"PUT", "/allocations/" + path, claim(`"p"`, `"u"`, `"INSTANCE"`)},
				{"PUT", "/allocations/" + uuid.NewString(), claim(q, `"u"`, `"INSTANCE"`)},
				{"PUT", "/allocations/" + uuid.NewString(), claim(`"p"`, q, `"INSTANCE"`)},
				{"PUT", "/allocations/" + uuid.NewString(), claim(`"p"`, `"u"`, q)},
				{"POST", "/allocations", `{` + q + `:` + claim(`"p"`, `"u"`, `"INSTANCE"`) + `}`},
				{"PUT", "/allocations/" + consumer, `{"allocations":{` + q +
					`:{"resources":{"VCPU":1}}},"project_id":"p","user_id":"u","consumer_generation":null,` +
					`"consumer_type":"INSTANCE"}`},
				{"GET", "/allocation_candidates?resources=" + in, ""},
				{"GET", "/allocation_candidates?resources=VCPU:1&required=" + in, ""},
				{"GET", "/allocation_candidates?resources=VCPU:1&in_tree=" + in, ""},
				{"GET", "/allocation_candidates?resources=VCPU:1&limit=" + in, ""},
				{"GET", "/allocation_candidates?resources" + in + "=VCPU:1", ""},
				{"GET", "/allocation_candidates?" + in + "=" + in, ""},
				{"GET", "/berth/v1/explain?resources=VCPU:1&member_of=" + in, ""}, {"GET", "/" + path, ""},
			} {
				resp := w.ask("1.39", r[0], r[1], r[2])
				body := bodyOf(t, resp)
				if resp.StatusCode >= http.StatusInternalServerError {
					t.Errorf("%s %.200s %.200s: %d %s", r[0], r[1], r[2], resp.StatusCode, body)
				}
				if resp.StatusCode == http.StatusOK && r[0] == "POST" && r[1] == "/resource_providers" &&
					!strings.Contains(r[2], `"x"`) {
					var made struct{ Name string }
					if err := json.Unmarshal([]byte(body), &made); err != nil || made.Name != text {
						t.Errorf("the name %q was stored as %q", text, made.Name)
					}
				}
			}
		}
	})
}
