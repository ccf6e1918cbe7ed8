package clienttest

import (
	"bufio"
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"reflect"
	"regexp"
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
	for _, version := range []string{"1.39", "1", "1.0"} {
		t.Run("openstack "+version, func(t *testing.T) { compareOpenStackClient(t, c, version) })
	}
}

// compareOpenStackClient executes the lines of a file of testdata, which is named after the microversion, in two
// interactive clients.
func compareOpenStackClient(t *testing.T, c *Cloud, version string) {
	lines := readLines(t, "testdata/"+version)
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

// status is the client's text for an error of the server; it is missing in errors of the client itself.
var status = regexp.MustCompile(`\(HTTP \d+\)`)

// equivalent reports whether both outputs are equivalent for the line.
func equivalent(l line, berth, original string) bool {
	switch {
	case l.refused && status.MatchString(original):
		return status.FindString(berth) == status.FindString(original)
	case l.more:
		var got, want []any
		if errors.Join(json.Unmarshal([]byte(berth), &got), json.Unmarshal([]byte(original), &want)) != nil ||
			len(want) == 0 {
			return false
		}
		return !slices.ContainsFunc(want, func(one any) bool {
			return !slices.ContainsFunc(got, func(other any) bool { return reflect.DeepEqual(one, other) })
		})
	}
	return canonical(berth) == canonical(original)
}

// isAnswer reports whether an output is a result, which is JSON or empty, and not an error text.
func isAnswer(output string) bool { return output == "" || json.Valid([]byte(output)) }

// canonical replaces generated UUIDs and sorts lists, whose order is not defined.
func canonical(output string) string {
	output = hideUUIDs(output)
	var value any
	if json.Unmarshal([]byte(output), &value) != nil {
		return output
	}
	text, err := json.MarshalIndent(sorted(value), "", "  ")
	if err != nil {
		return err.Error()
	}
	return string(text)
}

var uuids = regexp.MustCompile(`\b([0-9a-f]{8})-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}\b`)

// hideUUIDs replaces UUIDs that the servers generated. Those of the test consist of one digit, except version and
// variant.
func hideUUIDs(output string) string {
	return uuids.ReplaceAllStringFunc(output, func(id string) string {
		if strings.Count(id[:8], id[:1]) == 8 {
			return id
		}
		return "<uuid>"
	})
}

// sorted sorts lists by the text of their members, and lists inside a string ("DISK_GB=0/100,VCPU=0/64"). The rows
// of candidates are numbered in the order of the candidates: rows with one number become one member.
func sorted(value any) any {
	switch v := value.(type) {
	case string:
		words := strings.Split(v, ",")
		slices.Sort(words)
		return strings.Join(words, ",")
	case map[string]any:
		for key := range v {
			v[key] = sorted(v[key])
		}
	case []any:
		v = groupCandidates(v)
		for i := range v {
			v[i] = sorted(v[i])
		}
		slices.SortFunc(v, func(a, b any) int { return cmp.Compare(fmt.Sprint(a), fmt.Sprint(b)) })
		return v
	}
	return value
}

// groupCandidates groups numbered rows by their number; other rows are returned unchanged.
func groupCandidates(rows []any) []any {
	var grouped []any
	var numbers []any
	for _, one := range rows {
		row, ok := one.(map[string]any)
		number, numbered := row["#"]
		if !ok || !numbered {
			return rows
		}
		delete(row, "#")
		i := slices.Index(numbers, number)
		if i < 0 {
			i = len(numbers)
			numbers, grouped = append(numbers, number), append(grouped, []any{})
		}
		grouped[i] = append(grouped[i].([]any), row)
	}
	return append([]any{}, grouped...)
}

// shell is an interactive `openstack` client.
type shell struct {
	in    io.Writer
	out   chan string
	count int
}

// startShell starts a client as the administrator.
func startShell(t *testing.T, c *Cloud, region, version string) *shell {
	t.Helper()
	program, err := exec.LookPath("openstack")
	if err != nil {
		t.Fatal("the openstack client is not installed: run `make tools`")
	}
	cmd := exec.CommandContext(t.Context(), program)
	cmd.Env = append(os.Environ(), c.Credentials(region)...)
	cmd.Env = append(cmd.Env, "OS_PLACEMENT_API_VERSION="+version, "PYTHONUNBUFFERED=1")
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, both, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	cmd.Stdout, cmd.Stderr = both, both
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	both.Close() // the process has its own copy
	o := &shell{in: in, out: make(chan string)}
	go func() {
		defer close(o.out)
		defer out.Close()
		for lines := bufio.NewScanner(out); lines.Scan(); {
			select {
			case o.out <- lines.Text():
			case <-t.Context().Done():
				return
			}
		}
	}()
	t.Cleanup(func() {
		if err := errors.Join(in.Close(), cmd.Wait()); err != nil && t.Context().Err() == nil {
			t.Error(err)
		}
	})
	return o
}

// run executes a line and returns its output on both streams. An echo command marks the end of the output.
func (o *shell) run(t *testing.T, text string) string {
	t.Helper()
	o.count++
	mark := fmt.Sprintf("== %d ==", o.count)
	if _, err := fmt.Fprintf(o.in, "%s\nshell echo '%s'\n", text, mark); err != nil {
		t.Fatal(err)
	}
	var output bytes.Buffer
	for expired := time.After(timeout); ; {
		select {
		case one, more := <-o.out:
			if !more {
				t.Fatalf("%s\nthe client ended: %s", text, output.String())
			}
			if one == mark {
				return strings.TrimSpace(output.String())
			}
			output.WriteString(one + "\n")
		case <-expired:
			t.Fatalf("%s\nnot finished within %s: %s", text, timeout, output.String())
		}
	}
}
