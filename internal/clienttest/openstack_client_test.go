package clienttest

import (
	"encoding/json"
	"os"
	"slices"
	"strings"
	"testing"
	"time"
)

// TestClients compares what clients return for Berth and for OpenStack's own Placement, which they select by the
// region.
func TestClients(t *testing.T) {
	c := Start(t)
	c.StartBerth(t)
	c.StartOriginal(t)
	t.Run("gophercloud", func(t *testing.T) { compareGophercloud(t, c) })
	t.Run("error texts", func(t *testing.T) { compareErrorTexts(t, c) })
	for _, run := range []struct{ version, commands string }{
		{"1.39", "microversion-1.39"},
		{"1", "negotiated-microversion"},
		{"1.0", "microversion-1.0"},
	} {
		t.Run("openstack "+run.version, func(t *testing.T) {
			compareOpenStackClient(t, c, run.version, "testdata/openstack-commands-"+run.commands+".txt")
		})
	}
}

// compareOpenStackClient executes the lines of a file in two interactive clients that use a microversion; "1": client
// and server negotiate one.
func compareOpenStackClient(t *testing.T, c *Cloud, version, file string) {
	lines := readLines(t, file)
	berth, original := startShell(t, c, Berth, version), startShell(t, c, Original, version)
	if version == "1.39" {
		checkEveryVerb(t, berth, lines)
	}
	var spent [2]time.Duration
	for _, l := range lines {
		var outputs [2]string
		for i, client := range []*shell{berth, original} {
			began := time.Now()
			outputs[i] = client.run(t, l.text)
			spent[i] += time.Since(began)
		}
		if isAnswer(outputs[1]) == l.refused {
			t.Errorf("%s\nrefused: %t; OpenStack:\n%s", l.text, !l.refused, outputs[1])
		}
		if !equivalent(l, outputs[0], outputs[1]) {
			t.Errorf("%s\nBerth:\n%s\nOpenStack:\n%s", l.text, canonical(outputs[0]), canonical(outputs[1]))
		}
	}
	t.Logf("%d lines; %s with Berth, %s with OpenStack's Placement", len(lines), spent[0].Round(time.Millisecond),
		spent[1].Round(time.Millisecond))
}

// line is one input line, and how to compare its outputs.
type line struct {
	text    string
	refused bool // "! ": the status is compared, but not the text
	more    bool // "+ ": Berth lists what OpenStack's Placement lists, and newer standard names
}

func readLines(t *testing.T, file string) []line {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var lines []line
	for one := range strings.Lines(string(text)) {
		one = strings.TrimSpace(one)
		if one == "" || strings.HasPrefix(one, "#") {
			continue
		}
		var l line
		one, l.refused = strings.CutPrefix(one, "! ")
		l.text, l.more = strings.CutPrefix(one, "+ ")
		lines = append(lines, l)
	}
	return lines
}

// checkEveryVerb checks that the lines contain every Placement command of the client, with at least one success.
func checkEveryVerb(t *testing.T, o *shell, lines []line) {
	t.Helper()
	var groups []struct {
		Group    string `json:"Command Group"`
		Commands []string
	}
	output := o.run(t, "command list --group openstack.placement.v1 -f json")
	if err := json.Unmarshal([]byte(output), &groups); err != nil || len(groups) != 1 || len(groups[0].Commands) < 30 {
		t.Fatalf("the client does not list its commands: %v\n%s", err, output)
	}
	for _, verb := range groups[0].Commands {
		if !slices.ContainsFunc(lines, func(l line) bool { return !l.refused && strings.HasPrefix(l.text+" ", verb+" ") }) {
			t.Errorf("no line has the command %q", verb)
		}
	}
}
