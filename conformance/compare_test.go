package conformance

import (
	"net/http"
	"strings"
	"testing"
)

// These tests need no servers. They check that Compare finds every difference, and nothing else.

func newAnswer(status int, body string, headers ...string) Answer {
	a := Answer{Status: status, Body: body, Header: http.Header{}}
	for i := 0; i < len(headers); i += 2 {
		a.Header.Add(headers[i], headers[i+1])
	}
	return a
}

func TestCompare(t *testing.T) {
	rules, err := readRules()
	if err != nil {
		t.Fatal(err)
	}
	get := Request{Method: "GET", Target: "/resource_providers"}
	for _, c := range []struct {
		name         string
		ask          Request
		theirs, ours Answer
		want         string // part of the differences; empty: none
	}{
		{"equal", get, newAnswer(200, `{"a": [1, 2]}`), newAnswer(200, `{"a":[2,1]}`), ""},
		{"status", get, newAnswer(200, `{}`), newAnswer(404, `{}`), "status 404, want 200"},
		{"value", get, newAnswer(200, `{"a": 1}`), newAnswer(200, `{"a": 2}`), "body.a 2, want 1"},
		{"missing", get, newAnswer(200, `{"a": 1}`), newAnswer(200, `{}`), "body.a is missing"},
		{"unexpected member", get, newAnswer(200, `{}`), newAnswer(200, `{"a": 1}`), "body.a is unexpected"},
		{"null and missing", get, newAnswer(200, `{"a": null}`), newAnswer(200, `{}`), "body.a is missing"},
		{"integer and float", get, newAnswer(200, `{"a": 1}`), newAnswer(200, `{"a": 1.0}`), "want 1"},
		{"float forms", get, newAnswer(200, `{"a": 1.50}`), newAnswer(200, `{"a": 1.5}`), ""},
		{"shorter list", get, newAnswer(200, `{"a": ["x", "x"]}`), newAnswer(200, `{"a": ["x"]}`), "body.a: missing item"},
		{"nested lists are sets", get, newAnswer(200, `[{"m": ["x", "y"]}, {"m": ["z"]}]`),
			newAnswer(200, `[{"m": ["z"]}, {"m": ["y", "x"]}]`), ""},
		{"header missing", get, newAnswer(200, `{}`, "Vary", "OpenStack-API-Version"), newAnswer(200, `{}`), "header vary"},
		{"further header of an error", get, newAnswer(404, `{}`, "Content-Type", "application/json"),
			newAnswer(404, `{}`, "Content-Type", "application/json", "Vary", "x"), ""},
		{"header unknown", get, newAnswer(200, `{}`), newAnswer(200, `{}`, "X-New", "1"), "header x-new"},
		{"time", get, newAnswer(200, `{}`, "Last-Modified", "now"), newAnswer(200, `{}`, "Last-Modified", "then"), ""},
		{"time missing", get, newAnswer(200, `{}`, "Last-Modified", "now"), newAnswer(200, `{}`), "header last-modified"},
		{"detail", get, newAnswer(400, `{"errors": [{"detail": "x", "code": "c"}]}`),
			newAnswer(400, `{"errors": [{"detail": "y", "code": "c"}]}`), ""},
		{"detail empty", get, newAnswer(400, `{"errors": [{"detail": "x"}]}`), newAnswer(400, `{"errors": [{"detail": ""}]}`),
			"detail"},
		{"code", get, newAnswer(400, `{"errors": [{"detail": "x", "code": "c"}]}`),
			newAnswer(400, `{"errors": [{"detail": "y", "code": "d"}]}`), "code"},
		{"not JSON", get, newAnswer(200, `{}`), newAnswer(200, `<html>`), "JSON false"},
		{"no body", get, newAnswer(204, ``), newAnswer(204, `{}`), "JSON true"},
		{"server error of the original", get, newAnswer(500, `{}`), newAnswer(400, `{}`), ""},
		{"server error of Berth", get, newAnswer(500, `{}`), newAnswer(500, `{}`), "a server error"},
		{"newer traits", Request{Method: "GET", Target: "/traits"}, newAnswer(200, `{"traits": ["A"]}`),
			newAnswer(200, `{"traits": ["A", "B"]}`), ""},
		{"lost traits", Request{Method: "GET", Target: "/traits"}, newAnswer(200, `{"traits": ["A", "B"]}`),
			newAnswer(200, `{"traits": ["A"]}`), "missing item"},
	} {
		got := strings.Join(rules.Compare(c.ask, c.theirs, c.ours), "; ")
		if (c.want == "") != (got == "") || !strings.Contains(got, c.want) {
			t.Errorf("%s: %q, want %q", c.name, got, c.want)
		}
	}
}

const miscounted = `{"allocation_requests": [{"allocations": {"p": {"resources": {"VCPU": 2}}, "q": {"resources": {"VCPU": 1}}}}], "provider_summaries": {"p": {}, "q": {}}}`

func TestCandidatesWithWrongAmountsOfTheOriginal(t *testing.T) {
	rules, err := readRules()
	if err != nil {
		t.Fatal(err)
	}
	ours := strings.Replace(miscounted, `"VCPU": 2`, `"VCPU": 1`, 1)
	overlap := Request{Method: "GET", Target: "/allocation_candidates?resources=VCPU:1&resources1=VCPU:1"}
	if diffs := rules.Compare(overlap, newAnswer(200, miscounted), newAnswer(200, ours)); len(diffs) > 0 {
		t.Errorf("amounts that the original adds wrongly are reported: %q", diffs)
	}
	if diffs := rules.Compare(overlap, newAnswer(200, miscounted), newAnswer(200, miscounted)); len(diffs) == 0 {
		t.Error("wrong amounts of Berth are not reported")
	}
	if diffs := rules.Compare(overlap, newAnswer(200, miscounted),
		newAnswer(200, `{"allocation_requests": [], "provider_summaries": {"p": {}, "q": {}}}`)); len(diffs) == 0 {
		t.Error("a candidate that Berth does not return is not reported")
	}
	separate := Request{Method: "GET", Target: "/allocation_candidates?resources=VCPU:3&resources1=MEMORY_MB:1"}
	if diffs := rules.Compare(separate, newAnswer(200, miscounted), newAnswer(200, ours)); len(diffs) == 0 {
		t.Error("different amounts are not reported for a query without overlapping groups")
	}
}

func TestCandidatesMissingInTheOriginal(t *testing.T) {
	rules, err := readRules()
	if err != nil {
		t.Fatal(err)
	}
	candidate := func(plain, other string) string {
		return `{"allocations": {"` + plain + `": {"resources": {"VCPU": 1}}, "` + other +
			`": {"resources": {"MEMORY_MB": 1}}}, "mappings": {"": ["` + plain + `"], "1": ["` + other + `"]}}`
	}
	doc := func(list ...string) Answer {
		return newAnswer(200,
			`{"allocation_requests": [`+strings.Join(list, ",")+
				`], "provider_summaries": {"s": {"traits": ["MISC_SHARES_VIA_AGGREGATE"]}, "p": {"traits": []}, "q": {"traits": []}}}`)
	}
	ask := Request{Method: "GET", Target: "/allocation_candidates?resources=VCPU:1&resources1=MEMORY_MB:1"}
	both := doc(candidate("s", "p"), candidate("s", "q"))
	if diffs := rules.Compare(ask, doc(candidate("s", "p")), both); len(diffs) > 0 {
		t.Errorf("a candidate that the original loses is reported: %q", diffs)
	}
	if diffs := rules.Compare(ask, both, doc(candidate("s", "p"))); len(diffs) == 0 {
		t.Error("a candidate that Berth does not return is not reported")
	}
	if diffs := rules.Compare(ask, doc(candidate("s", "p")), doc(candidate("s", "p"), candidate("p", "q"))); len(diffs) ==
		0 {
		t.Error("a further candidate without a sharing provider is not reported")
	}
	alone := Request{Method: "GET", Target: "/allocation_candidates?resources=VCPU:1,MEMORY_MB:1"}
	if diffs := rules.Compare(alone, doc(candidate("s", "p")), both); len(diffs) == 0 {
		t.Error("a further candidate for a query of one group is not reported")
	}
}

func TestLimitedCandidates(t *testing.T) {
	doc := func(ids ...string) Answer {
		var requests, summaries []string
		for _, id := range ids {
			requests = append(requests, `{"allocations": {"`+id+`": {"resources": {"VCPU": 1}}}}`)
			summaries = append(summaries, `"`+id+`": {"resources": {}}`)
		}
		return newAnswer(200,
			`{"allocation_requests": [`+strings.Join(requests, ",")+`], "provider_summaries": {`+strings.Join(summaries, ",")+
				`}}`)
	}
	roots := map[string]string{"a": "a", "b": "b", "c": "c"}
	ask := Request{Method: "GET", Target: "/allocation_candidates?resources=VCPU:1"}
	for _, c := range []struct {
		name string
		ours Answer
		want string
	}{
		{"another candidate", doc("b"), ""},
		{"too many candidates", doc("a", "b"), "2 items, want 1"},
		{"no candidate", doc(), "0 items, want 1"},
		{"an unknown candidate", doc("d"), "not in the original's unlimited answer"},
		{"a further summary", newAnswer(200, strings.Replace(doc("b").Body, `"provider_summaries": {`,
			`"provider_summaries": {"c": {"resources": {}}, `, 1)), "want one of"},
	} {
		got := strings.Join(Rules(nil).limitedDiffs(ask, roots, doc("a", "b", "c"), doc("a"), c.ours), "; ")
		if (c.want == "") != (got == "") || !strings.Contains(got, c.want) {
			t.Errorf("%s: %q, want %q", c.name, got, c.want)
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
	if len(found) != 2 || !one.EachVersion || one.From != 5 || one.To != Latest || one.Uses != "world" ||
		len(one.Steps) != 2 {
		t.Fatalf("parsed as %+v", found)
	}
	put := one.Steps[0]
	if put.Version != "1.39" || put.From != 8 || put.To != 11 || put.As != "new" || len(put.Headers) != 2 ||
		put.Headers[1].Value != "" || put.Line != 4 {
		t.Errorf("parsed as %+v", put)
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
			t.Errorf("%q was accepted", wrong)
		}
	}
}
