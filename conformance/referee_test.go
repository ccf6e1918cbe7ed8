package conformance

import (
	"net/http"
	"strings"
	"testing"
)

// The referee himself is tested without servers: whatever differs must be found, and nothing else.

func answer(status int, body string, headers ...string) Answer {
	a := Answer{Status: status, Body: body, Header: http.Header{}}
	for i := 0; i < len(headers); i += 2 {
		a.Header.Add(headers[i], headers[i+1])
	}
	return a
}

func TestCompareFindsWhatDiffers(t *testing.T) {
	rules, err := readRules()
	if err != nil {
		t.Fatal(err)
	}
	get := Ask{Method: "GET", Target: "/resource_providers"}
	for _, c := range []struct {
		name         string
		ask          Ask
		theirs, ours Answer
		want         string // a part of what must be said; "": nothing differs
	}{
		{"equal", get, answer(200, `{"a": [1, 2]}`), answer(200, `{"a":[2,1]}`), ""},
		{"status", get, answer(200, `{}`), answer(404, `{}`), "status 404, should be 200"},
		{"value", get, answer(200, `{"a": 1}`), answer(200, `{"a": 2}`), "body.a 2, should be 1"},
		{"missing", get, answer(200, `{"a": 1}`), answer(200, `{}`), "body.a missing"},
		{"too much", get, answer(200, `{}`), answer(200, `{"a": 1}`), "body.a should not be"},
		{"null is not missing", get, answer(200, `{"a": null}`), answer(200, `{}`), "body.a missing"},
		{"integer and float", get, answer(200, `{"a": 1}`), answer(200, `{"a": 1.0}`), "should be 1"},
		{"float forms", get, answer(200, `{"a": 1.50}`), answer(200, `{"a": 1.5}`), ""},
		{"list longer", get, answer(200, `{"a": ["x", "x"]}`), answer(200, `{"a": ["x"]}`), "body.a lacks"},
		{"nested lists are sets", get, answer(200, `[{"m": ["x", "y"]}, {"m": ["z"]}]`),
			answer(200, `[{"m": ["z"]}, {"m": ["y", "x"]}]`), ""},
		{"header missing", get, answer(200, `{}`, "Vary", "OpenStack-API-Version"), answer(200, `{}`), "header vary"},
		{"header of an error may be more", get, answer(404, `{}`, "Content-Type", "application/json"),
			answer(404, `{}`, "Content-Type", "application/json", "Vary", "x"), ""},
		{"header unknown", get, answer(200, `{}`), answer(200, `{}`, "X-New", "1"), "header x-new"},
		{"time", get, answer(200, `{}`, "Last-Modified", "now"), answer(200, `{}`, "Last-Modified", "then"), ""},
		{"time missing", get, answer(200, `{}`, "Last-Modified", "now"), answer(200, `{}`), "header last-modified"},
		{"detail", get, answer(400, `{"errors": [{"detail": "x", "code": "c"}]}`),
			answer(400, `{"errors": [{"detail": "y", "code": "c"}]}`), ""},
		{"detail empty", get, answer(400, `{"errors": [{"detail": "x"}]}`), answer(400, `{"errors": [{"detail": ""}]}`),
			"detail"},
		{"code", get, answer(400, `{"errors": [{"detail": "x", "code": "c"}]}`),
			answer(400, `{"errors": [{"detail": "y", "code": "d"}]}`), "code"},
		{"no JSON", get, answer(200, `{}`), answer(200, `<html>`), "JSON false"},
		{"no body", get, answer(204, ``), answer(204, `{}`), "JSON true"},
		{"a failure need not be copied", get, answer(500, `{}`), answer(400, `{}`), ""},
		{"a failure of Berth", get, answer(500, `{}`), answer(500, `{}`), "a failure"},
		{"newer traits", Ask{Method: "GET", Target: "/traits"}, answer(200, `{"traits": ["A"]}`),
			answer(200, `{"traits": ["A", "B"]}`), ""},
		{"lost traits", Ask{Method: "GET", Target: "/traits"}, answer(200, `{"traits": ["A", "B"]}`),
			answer(200, `{"traits": ["A"]}`), "lacks"},
	} {
		got := strings.Join(rules.Compare(c.ask, c.theirs, c.ours), "; ")
		if (c.want == "") != (got == "") || !strings.Contains(got, c.want) {
			t.Errorf("%s: %q, should say %q", c.name, got, c.want)
		}
	}
}

const shared = `{"allocation_requests": [{"allocations": {"p": {"resources": {"VCPU": 2}}, "q": {"resources": {"VCPU": 1}}}}], "provider_summaries": {"p": {}, "q": {}}}`

func TestCandidatesThatTheOriginalMiscounts(t *testing.T) {
	rules, err := readRules()
	if err != nil {
		t.Fatal(err)
	}
	ours := strings.Replace(shared, `"VCPU": 2`, `"VCPU": 1`, 1)
	overlap := Ask{Method: "GET", Target: "/allocation_candidates?resources=VCPU:1&resources1=VCPU:1"}
	if diffs := rules.Compare(overlap, answer(200, shared), answer(200, ours)); len(diffs) > 0 {
		t.Errorf("amounts that the original miscounts are held against Berth: %q", diffs)
	}
	if diffs := rules.Compare(overlap, answer(200, shared), answer(200, shared)); len(diffs) == 0 {
		t.Error("amounts of Berth that do not add up pass")
	}
	if diffs := rules.Compare(overlap, answer(200, shared),
		answer(200, `{"allocation_requests": [], "provider_summaries": {"p": {}, "q": {}}}`)); len(diffs) == 0 {
		t.Error("a candidate that Berth lacks passes")
	}
	apart := Ask{Method: "GET", Target: "/allocation_candidates?resources=VCPU:3&resources1=MEMORY_MB:1"}
	if diffs := rules.Compare(apart, answer(200, shared), answer(200, ours)); len(diffs) == 0 {
		t.Error("amounts differ in a query that the original can add up, and that passes")
	}
}

func TestCandidatesThatTheOriginalLoses(t *testing.T) {
	rules, err := readRules()
	if err != nil {
		t.Fatal(err)
	}
	candidate := func(plain, other string) string {
		return `{"allocations": {"` + plain + `": {"resources": {"VCPU": 1}}, "` + other +
			`": {"resources": {"MEMORY_MB": 1}}}, "mappings": {"": ["` + plain + `"], "1": ["` + other + `"]}}`
	}
	doc := func(list ...string) Answer {
		return answer(200,
			`{"allocation_requests": [`+strings.Join(list, ",")+
				`], "provider_summaries": {"s": {"traits": ["MISC_SHARES_VIA_AGGREGATE"]}, "p": {"traits": []}, "q": {"traits": []}}}`)
	}
	ask := Ask{Method: "GET", Target: "/allocation_candidates?resources=VCPU:1&resources1=MEMORY_MB:1"}
	both := doc(candidate("s", "p"), candidate("s", "q"))
	if diffs := rules.Compare(ask, doc(candidate("s", "p")), both); len(diffs) > 0 {
		t.Errorf("what the original loses is held against Berth: %q", diffs)
	}
	if diffs := rules.Compare(ask, both, doc(candidate("s", "p"))); len(diffs) == 0 {
		t.Error("what Berth loses passes")
	}
	if diffs := rules.Compare(ask, doc(candidate("s", "p")), doc(candidate("s", "p"), candidate("p", "q"))); len(diffs) ==
		0 {
		t.Error("a candidate without a sharing provider is too much, and that passes")
	}
	alone := Ask{Method: "GET", Target: "/allocation_candidates?resources=VCPU:1,MEMORY_MB:1"}
	if diffs := rules.Compare(alone, doc(candidate("s", "p")), both); len(diffs) == 0 {
		t.Error("a query of one group is answered with more, and that passes")
	}
}

func TestLimitedCandidates(t *testing.T) {
	doc := func(ids ...string) Answer {
		var requests, summaries []string
		for _, id := range ids {
			requests = append(requests, `{"allocations": {"`+id+`": {"resources": {"VCPU": 1}}}}`)
			summaries = append(summaries, `"`+id+`": {"resources": {}}`)
		}
		return answer(200,
			`{"allocation_requests": [`+strings.Join(requests, ",")+`], "provider_summaries": {`+strings.Join(summaries, ",")+
				`}}`)
	}
	roots := map[string]string{"a": "a", "b": "b", "c": "c"}
	ask := Ask{Method: "GET", Target: "/allocation_candidates?resources=VCPU:1"}
	for _, c := range []struct {
		name string
		ours Answer
		want string
	}{
		{"another choice", doc("b"), ""},
		{"two for one", doc("a", "b"), "2 of them, should be 1"},
		{"none", doc(), "0 of them, should be 1"},
		{"a stranger", doc("d"), "has not"},
		{"a summary too much", answer(200, strings.Replace(doc("b").Body, `"provider_summaries": {`,
			`"provider_summaries": {"c": {"resources": {}}, `, 1)), "should be of one of"},
	} {
		got := strings.Join(Rules(nil).limitedDiffs(ask, roots, doc("a", "b", "c"), doc("a"), c.ours), "; ")
		if (c.want == "") != (got == "") || !strings.Contains(got, c.want) {
			t.Errorf("%s: %q, should say %q", c.name, got, c.want)
		}
	}
}

func TestParse(t *testing.T) {
	found, err := Parse("x.txt", `# a comment
=== one | each 1.5-
use world
PUT /a/$b?c=%20 @1.39 when 1.8-1.11 as new
Accept: text/html
Content-Type:
| {"a": $b.gen,
|  "c": "$("x"*3)$("\u00e9")"}

GET /
=== two
`)
	if err != nil {
		t.Fatal(err)
	}
	one := found[0]
	if len(found) != 2 || !one.Each || one.From != 5 || one.To != Latest || one.Uses != "world" || len(one.Steps) != 2 {
		t.Fatalf("read as %+v", found)
	}
	put := one.Steps[0]
	if put.Version != "1.39" || put.From != 8 || put.To != 11 || put.As != "new" || len(put.Headers) != 2 ||
		put.Headers[1].Value != "" || put.Line != 4 {
		t.Errorf("read as %+v", put)
	}
	body, err := expand(put.Body, func(name, kind string) (string, error) { return "<" + name + kind + ">", nil })
	if err != nil || body != "{\"a\": <b.gen>,\n \"c\": \"xxxé\"}" {
		t.Errorf("expanded to %q (%v)", body, err)
	}
	for _, wrong := range []string{"GET /", "=== a\n=== a", "=== a | 1.40", "=== a\nfetch /", "=== a\nGET / now",
		"=== a\n| body"} {
		if _, err := Parse("x.txt", wrong); err == nil || !strings.HasPrefix(err.Error(), "x.txt:") {
			t.Errorf("%q: %v", wrong, err)
		}
	}
}

func TestParseRules(t *testing.T) {
	for _, wrong := range []string{"status | ignore | *", "status | never | * | why", "status | ignore | ( | why",
		"status | ignore | * | "} {
		if _, err := ParseRules("x", wrong); err == nil {
			t.Errorf("%q is accepted", wrong)
		}
	}
}
