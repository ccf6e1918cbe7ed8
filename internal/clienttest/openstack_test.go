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

// Everybody signs in at one Keystone and chooses by the region who answers: Berth, or OpenStack's own Placement. Both
// get the same, and what the clients make of the answers is compared.
func TestClients(t *testing.T) {
	c := Start(t)
	c.StartBerth(t)
	c.StartOriginal(t)
	t.Run("gophercloud", func(t *testing.T) { gophercloudClient(t, c) })
	t.Run("sentences", func(t *testing.T) { sentences(t, c) })
	for _, version := range []string{"1.39", "1", "1.0"} {
		t.Run("openstack "+version, func(t *testing.T) { openstackClient(t, c, version) })
	}
}

// openstackClient types the lines of a file of testdata, which bears the microversion in its name, at the prompts of
// two clients.
func openstackClient(t *testing.T, c *Cloud, version string) {
	lines := read(t, "testdata/"+version)
	berth, original := open(t, c, Berth, version), open(t, c, Original, version)
	if version == "1.39" {
		everyVerb(t, berth, lines)
	}
	var spent [2]time.Duration
	for _, l := range lines {
		var said [2]string
		for i, client := range []*client{berth, original} {
			began := time.Now()
			said[i] = client.ask(t, l.text)
			spent[i] += time.Since(began)
		}
		if isAnswer(said[1]) == l.refused {
			t.Errorf("%s\nis refused: %t; the original says\n%s", l.text, !l.refused, said[1])
		}
		if !same(l, said[0], said[1]) {
			t.Errorf("%s\nBerth:\n%s\nthe original:\n%s", l.text, canonical(said[0]), canonical(said[1]))
		}
	}
	t.Logf("%d lines; %s with Berth, %s with the original", len(lines), spent[0].Round(time.Millisecond),
		spent[1].Round(time.Millisecond))
}

// line is one line that is typed, and what is to come of it.
type line struct {
	text    string
	refused bool // "! ": the status is compared, not the sentence, which is everybody's own
	more    bool // "+ ": Berth lists what the original lists, and the names of newer standards
}

func read(t *testing.T, file string) []line {
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

// everyVerb checks that nothing the client can do with Placement is missing from the lines, with at least one success.
func everyVerb(t *testing.T, o *client, lines []line) {
	t.Helper()
	var groups []struct {
		Group    string `json:"Command Group"`
		Commands []string
	}
	said := o.ask(t, "command list --group openstack.placement.v1 -f json")
	if err := json.Unmarshal([]byte(said), &groups); err != nil || len(groups) != 1 || len(groups[0].Commands) < 30 {
		t.Fatalf("the client does not tell its verbs: %v\n%s", err, said)
	}
	for _, verb := range groups[0].Commands {
		if !slices.ContainsFunc(lines, func(l line) bool { return !l.refused && strings.HasPrefix(l.text+" ", verb+" ") }) {
			t.Errorf("nobody asks for %q", verb)
		}
	}
}

// status is how the client tells that the server refuses; it is missing where the client itself does.
var status = regexp.MustCompile(`\(HTTP \d+\)`)

// same says whether nobody at the prompt notices who answers.
func same(l line, berth, original string) bool {
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

// isAnswer tells an answer, which is JSON or nothing, from a refusal, which is a sentence.
func isAnswer(said string) bool { return said == "" || json.Valid([]byte(said)) }

// canonical hides what chance decided, and sorts lists, in which Placement promises no order.
func canonical(said string) string {
	said = hideUUIDs(said)
	var value any
	if json.Unmarshal([]byte(said), &value) != nil {
		return said
	}
	text, err := json.MarshalIndent(ordered(value), "", "  ")
	if err != nil {
		return err.Error()
	}
	return string(text)
}

var uuids = regexp.MustCompile(`\b([0-9a-f]{8})-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}\b`)

// hideUUIDs replaces the UUIDs that the servers made. Ours consist of one digit, but for version and variant.
func hideUUIDs(said string) string {
	return uuids.ReplaceAllStringFunc(said, func(id string) string {
		if strings.Count(id[:8], id[:1]) == 8 {
			return id
		}
		return "<uuid>"
	})
}

// ordered sorts lists by what their members look like, and lists in one word ("DISK_GB=0/100,VCPU=0/64"). The rows of
// candidates are numbered in the order in which candidates came: rows with one number become one member.
func ordered(value any) any {
	switch v := value.(type) {
	case string:
		words := strings.Split(v, ",")
		slices.Sort(words)
		return strings.Join(words, ",")
	case map[string]any:
		for key := range v {
			v[key] = ordered(v[key])
		}
	case []any:
		v = candidates(v)
		for i := range v {
			v[i] = ordered(v[i])
		}
		slices.SortFunc(v, func(a, b any) int { return cmp.Compare(fmt.Sprint(a), fmt.Sprint(b)) })
		return v
	}
	return value
}

func candidates(rows []any) []any {
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

// client is an `openstack` that waits at its prompt.
type client struct {
	in    io.Writer
	out   chan string
	asked int
}

// open starts a client as the administrator.
func open(t *testing.T, c *Cloud, region, version string) *client {
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
	both.Close() // the process has its own
	o := &client{in: in, out: make(chan string)}
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

// ask types a line and gives what is said about it, on either stream. A line of the shell marks the end.
func (o *client) ask(t *testing.T, text string) string {
	t.Helper()
	o.asked++
	mark := fmt.Sprintf("== %d ==", o.asked)
	if _, err := fmt.Fprintf(o.in, "%s\nshell echo '%s'\n", text, mark); err != nil {
		t.Fatal(err)
	}
	var said bytes.Buffer
	for late := time.After(patience); ; {
		select {
		case one, more := <-o.out:
			if !more {
				t.Fatalf("%s\nthe client ended: %s", text, said.String())
			}
			if one == mark {
				return strings.TrimSpace(said.String())
			}
			said.WriteString(one + "\n")
		case <-late:
			t.Fatalf("%s\nno end within %s: %s", text, patience, said.String())
		}
	}
}
