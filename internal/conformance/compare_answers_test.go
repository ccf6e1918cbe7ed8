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
