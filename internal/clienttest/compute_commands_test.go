package clienttest

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	api "github.com/openberth/berth/api/network"
	"github.com/openberth/berth/internal/testenv"
)

// commandTable is the table of the `openstack` commands.
const commandTable = "../../docs/openstack-client-commands.md"

// publicKey is a key for key pairs.
const publicKey = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIOMqqnkVzrm0SdG6UOoqKLsabgH5C9okWi0dh2l9GKJl ann@host\n"

// clientStep is one input line of a client with Berth's compute, and what its output must be.
type clientStep struct {
	text   string
	fails  bool     // "! ": an error; otherwise the output is a result
	plain  bool     // "~ ": a result that is not JSON, or an error with status 0 that "> " lines name
	again  bool     // "? ": repeated until the output contains all parts
	parts  []string // "> " lines that follow: parts of the output
	absent []string // "< " lines that follow: texts that the output does not contain
	output string
}

// TestComputeCommands executes the lines of testdata/openstack-compute-commands.txt in real clients against a real
// `berth up`, and compares what each command does with the table in docs/openstack-client-commands.md.
func TestComputeCommands(t *testing.T) {
	c := Start(t)
	image, networks := c.StartCompute(t)
	ann, _ := c.User(t, "ann", "p1", "member")
	c.reportNetworkAgent(t, networks)
	network, port := networkOf(t, networks, c.Token(t, "ann", "ann", "p1"))
	_, p2 := c.User(t, "bob", "p2", "member")
	values := strings.NewReplacer("$IMAGE", image, "$ANN", ann, "$P2", p2, "$DIR", t.TempDir(), "$NET", network,
		"$PORT", port)
	public := filepath.Join(values.Replace("$DIR"), "key.pub")
	Write(t, public, publicKey)
	Write(t, filepath.Join(values.Replace("$DIR"), "user-data"), "#cloud-config\n")
	all, shells := c.performSteps(t, "testdata/openstack-compute-commands.txt", values)
	compareTable(t, shells["admin 2.92"], all)
}

// networkOf creates a network with a subnet and a port for the project of a token, and returns the ids of network and
// port.
func networkOf(t *testing.T, address, token string) (network, port string) {
	t.Helper()
	client := api.NewClient(address, nil, token)
	n, err := client.CreateNetwork(t.Context(), map[string]any{"name": "net"})
	must(t, err)
	_, err = client.CreateSubnet(t.Context(), map[string]any{"network_id": n.ID, "ip_version": 4, "cidr": "10.0.0.0/24"})
	must(t, err)
	p, err := client.CreatePort(t.Context(), map[string]any{"network_id": n.ID, "name": "port"})
	must(t, err)
	return n.ID, p.ID
}

// performSteps executes the lines of a file in clients of the cloud, and returns the lines with their outputs and the
// clients.
func (c *Cloud) performSteps(t *testing.T, file string, values *strings.Replacer) (all []clientStep,
	shells map[string]*shell) {
	t.Helper()
	return performSteps(t, file, values, c.computeCredentials)
}

// performSteps executes the lines of a file in clients with these environments.
func performSteps(t *testing.T, file string, values *strings.Replacer, environment func(who string) []string) (
	all []clientStep, shells map[string]*shell) {
	t.Helper()
	shells = map[string]*shell{}
	var client *shell
	id := ""
	for _, s := range readSteps(t, file) {
		if who, ok := strings.CutPrefix(s.text, "= "); ok {
			if client = shells[who]; client == nil {
				client = startShellWith(t, environment(who)...)
				shells[who] = client
			}
			continue
		}
		s.text = strings.ReplaceAll(values.Replace(s.text), "$ID", id)
		for i := range s.parts {
			s.parts[i] = values.Replace(s.parts[i])
		}
		if rest, ok := strings.CutPrefix(s.text, "ID := "); ok {
			s.text = rest
			id = anyID.FindString(perform(t, client, &s))
			continue
		}
		perform(t, client, &s)
		all = append(all, s)
	}
	return all, shells
}

// anyID matches a UUID or a request id.
var anyID = regexp.MustCompile(`(req-)?[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}`)

// httpError matches the status of an error in what a client prints.
var httpError = regexp.MustCompile(`\b(HTTP |HttpException: |Exception: )[45][0-9][0-9]\b`)

// computeCredentials returns the environment of a client: "admin 2.92" or "ann 2.92" of project p1, "bob 2.92" of p2.
func (c *Cloud) computeCredentials(who string) []string {
	user, version, _ := strings.Cut(who, " ")
	environment := append(c.Credentials(c.Region), "OS_COMPUTE_API_VERSION="+version)
	projects := map[string]string{"ann": "p1", "bob": "p2"}
	if project := projects[user]; project != "" {
		environment = append(environment, "OS_USERNAME="+user, "OS_PASSWORD="+user, "OS_PROJECT_NAME="+project)
	}
	return environment
}

// perform executes a step and checks its output, which it returns.
func perform(t *testing.T, client *shell, s *clientStep) string {
	t.Helper()
	check := func() error {
		s.output = client.run(t, s.text)
		switch {
		case !s.plain && isAnswer(s.output) == s.fails:
			return fmt.Errorf("%s\nfails: %t\n%s", s.text, !s.fails, s.output)
		case s.plain && len(s.parts) == 0 && httpError.MatchString(s.output):
			return fmt.Errorf("%s\nfails\n%s", s.text, s.output)
		case s.fails && strings.Contains(s.output, "Traceback"):
			return fmt.Errorf("%s\nthe client crashed\n%s", s.text, s.output)
		}
		for _, part := range s.parts {
			if !strings.Contains(s.output, part) {
				return fmt.Errorf("%s\ndoes not show %q\n%s", s.text, part, s.output)
			}
		}
		for _, text := range s.absent {
			if strings.Contains(s.output, text) {
				return fmt.Errorf("%s\nshows %q\n%s", s.text, text, s.output)
			}
		}
		return nil
	}
	if s.again {
		testenv.Until(t, s.text, check)
	} else if err := check(); err != nil {
		t.Error(err)
	}
	return s.output
}

// readSteps reads the lines of a file. Empty lines and those that begin with # are comments.
func readSteps(t *testing.T, file string) []clientStep {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var steps []clientStep
	for one := range strings.Lines(string(text)) {
		one = strings.TrimSpace(one)
		mark, rest, _ := strings.Cut(one, " ")
		switch {
		case one == "" || mark == "#":
		case mark == ">":
			last := &steps[len(steps)-1]
			last.parts = append(last.parts, rest)
		case mark == "<":
			last := &steps[len(steps)-1]
			last.absent = append(last.absent, rest)
		case mark == "!":
			steps = append(steps, clientStep{text: rest, fails: true})
		case mark == "~":
			steps = append(steps, clientStep{text: rest, plain: true})
		case mark == "?":
			steps = append(steps, clientStep{text: rest, again: true})
		default:
			steps = append(steps, clientStep{text: one})
		}
	}
	return steps
}

// row is one row of the table: a command, what it does, and a note.
type row struct{ command, result, note string }

var rowText = regexp.MustCompile("^\\| `([a-z ]+)` \\| (works|refused|not built) \\| ?(.*) \\|$")

// readTable reads the rows of the table in a file.
func readTable(t *testing.T, file string) map[string]row {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	rows := map[string]row{}
	for one := range strings.Lines(string(text)) {
		m := rowText.FindStringSubmatch(strings.TrimSpace(one))
		if m == nil {
			if strings.HasPrefix(one, "| `") {
				t.Errorf("the row %s is not a command, works, refused or not built, and a note", one)
			}
			continue
		}
		if _, twice := rows[m[1]]; twice {
			t.Errorf("the table has %q twice", m[1])
		}
		rows[m[1]] = row{m[1], m[2], m[3]}
	}
	return rows
}

// compareTable checks that the table has every compute command of the client, and that each does what its row says: one
// that works has succeeded, and none of the others has; the sentence of a refused one is in its output.
func compareTable(t *testing.T, client *shell, all []clientStep) {
	t.Helper()
	rows := readTable(t, commandTable)
	for _, verb := range computeVerbs(t, client) {
		if _, ok := rows[verb]; !ok {
			t.Errorf("%s has no row for %q", commandTable, verb)
		}
	}
	byVerb := map[string][]clientStep{}
	for _, s := range all {
		verb := verbOf(s.text, rows)
		byVerb[verb] = append(byVerb[verb], s)
	}
	for _, r := range rows {
		lines := byVerb[r.command]
		works := slices.ContainsFunc(lines, func(s clientStep) bool { return !s.fails })
		switch {
		case len(lines) == 0:
			t.Errorf("no line has the command %q", r.command)
		case !works && r.result == "works" && slices.ContainsFunc(lines, func(s clientStep) bool {
			return otherwise[r.command] != "" && strings.Contains(s.output, otherwise[r.command])
		}):
		case works != (r.result == "works"):
			t.Errorf("%s: the table has %q, but a line succeeds: %t", r.command, r.result, works)
		case r.result != "works" && !slices.ContainsFunc(lines, func(s clientStep) bool { return refusedAs(s, r.note) }):
			t.Errorf("%s: no output has the sentence of the table, %s\n%s", r.command, r.note, lines[0].output)
		}
	}
}

// otherwise are the sentences with which commands are refused that work only with a second host, which the cloud of
// this test does not have. TestLibvirtLiveMigration of cmd/berth requests the same of the API.
var otherwise = map[string]string{
	"server migration abort":          "Cannot 'abort live migration' instance",
	"server migration force complete": "Cannot 'force_complete' instance",
}

// refusedAs reports whether the output of a step has the status and the sentence of a note, which begins with "404: "
// if the service refuses the command, and otherwise is a sentence of the client.
func refusedAs(s clientStep, note string) bool {
	if code, sentence, ok := strings.Cut(note, ": "); ok && len(code) == 3 {
		return strings.Contains(s.output, code) && strings.Contains(s.output, sentence)
	}
	return strings.Contains(s.output, strings.TrimPrefix(note, "the client: "))
}

// verbOf returns the longest command of the table with which a line begins.
func verbOf(text string, rows map[string]row) string {
	best := ""
	for verb := range rows {
		if strings.HasPrefix(text+" ", verb+" ") && len(verb) > len(best) {
			best = verb
		}
	}
	return best
}

// computeVerbs returns the compute commands of the client, and those of other groups that use compute.
func computeVerbs(t *testing.T, client *shell) []string {
	t.Helper()
	var groups []struct {
		Group    string `json:"Command Group"`
		Commands []string
	}
	output := client.run(t, "command list --group openstack.compute.v2 -f json")
	if err := json.Unmarshal([]byte(output), &groups); err != nil || len(groups) != 1 || len(groups[0].Commands) < 80 {
		t.Fatalf("the client does not list its commands: %v\n%s", err, output)
	}
	return append(groups[0].Commands, "availability zone list", "limits show", "quota list", "quota set", "quota show")
}
