package consoles

import (
	"fmt"
	"testing"

	"github.com/openberth/berth/api/host"
	"github.com/openberth/berth/fault"
)

// TestMostRequests checks how many consoles of a server and of a project may be open.
func TestMostRequests(t *testing.T) {
	var requests Requests
	var closes []func()
	for n := range maxServerRequests + 1 {
		_, closed, err := requests.request("h", host.ConsoleRequest{Guest: "s"})
		if closes = append(closes, closed); n == maxServerRequests && !fault.Is(err, fault.Forbidden) ||
			n < maxServerRequests && err != nil {
			t.Errorf("request %d: %v", n, err)
		}
	}
	if closes[0](); len(requests.List("h")) != maxServerRequests-1 {
		t.Errorf("%d are open", len(requests.List("h")))
	}
	if _, _, err := requests.request("h", host.ConsoleRequest{Guest: "s"}); err != nil {
		t.Error(err)
	}
	open := func(n int, project string) error {
		_, err := requests.add("h2", &openConsole{session: &consoleSession{project: project},
			request: host.ConsoleRequest{ID: fmt.Sprint(project, n), Guest: fmt.Sprint(project, n)}})
		return err
	}
	for n := range maxProjectSessions + 1 {
		if err := open(n, "p"); (err == nil) != (n < maxProjectSessions) {
			t.Errorf("session %d: %v", n, err)
		}
	}
	if err := open(0, "q"); err != nil {
		t.Errorf("another project: %v", err)
	}
}

// TestLastLines cuts the output of a console.
func TestLastLines(t *testing.T) {
	for _, c := range []struct {
		text  string
		lines int
		want  string
	}{{"a\nb\nc\n", 2, "b\nc"}, {"a\nb\nc", 2, "b\nc"}, {"a\nb\n", -1, "a\nb\n"}, {"a\nb\n", 2, "a\nb\n"},
		{"a\n", 9, "a\n"}, {"a\nb\n", 0, ""}, {"", 1, ""}} {
		if got := lastLines(c.text, c.lines); got != c.want {
			t.Errorf("the last %d lines of %q are %q, want %q", c.lines, c.text, got, c.want)
		}
	}
}
