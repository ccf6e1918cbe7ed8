package conformance

import (
	"errors"
	"fmt"
	"path"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
)

// Pair is the two servers, and what is held against each other of their answers. One sequence is played on a pair at a
// time.
type Pair struct {
	Original, Berth *Server
	Rules           Rules
	Tally           *Tally
}

// Tally counts what was compared.
type Tally struct {
	Requests   atomic.Int64 // all
	Candidates atomic.Int64 // answered with a list of candidates
	Found      atomic.Int64 // answered with a list that is not empty
}

// String says what was compared.
func (t *Tally) String() string {
	return fmt.Sprintf("%d requests compared with OpenStack's own Placement, among them %d for candidates, of which %d "+
		"found some",
		t.Requests.Load(), t.Candidates.Load(), t.Found.Load())
}

func (t *Tally) count(theirs Answer) {
	t.Requests.Add(1)
	if theirs.Status == 200 && strings.HasPrefix(theirs.Body, `{"allocation_requests": [`) {
		t.Candidates.Add(1)
		if !strings.HasPrefix(theirs.Body, `{"allocation_requests": []`) {
			t.Found.Add(1)
		}
	}
}

// Finding is a request that the two answered differently.
type Finding struct {
	Sequence     string
	Line         int
	Version      string
	Ask          Ask
	Theirs, Ours Answer
	Diffs        []string
	names        *strings.Replacer // of UUIDs, for people
}

// String tells the finding to people.
func (f Finding) String() string {
	text := fmt.Sprintf("%s, line %d, at %s\n  request:  %s\n  original: %s\n  berth:    %s\n  - %s",
		f.Sequence, f.Line, f.Version, f.Ask, f.Theirs, f.Ours, strings.Join(f.Diffs, "\n  - "))
	if f.names == nil {
		return text
	}
	return f.names.Replace(text)
}

// world is one sequence being played on both servers.
type world struct {
	pair     *Pair
	sequence string
	name     string               // what UUIDs are made from
	captured [2]map[string]string // names that the servers chose
	named    map[string]string    // by UUID: the name that it stands for
	last     int                  // the original's last status
	findings []Finding
}

func newWorld(p *Pair, sequence, name string) *world {
	return &world{pair: p, sequence: sequence, name: name, captured: [2]map[string]string{{}, {}},
		named: map[string]string{}}
}

// Play plays a sequence, after the world it uses, at a microversion, and says what was answered differently. The world
// must be empty; see Reset. In a sequence played as Each, every unfixed request is sent at all of the versions, one
// after the other. An error is a server that does not answer, or a wrong script.
func (p *Pair) Play(seq Sequence, before []Step, versions ...int) ([]Finding, error) {
	w := newWorld(p, seq.File+": "+seq.Name, fmt.Sprint(seq.File, seq.Name, versions))
	for _, step := range before {
		if err := w.step(step, Latest); err != nil {
			return w.findings, err
		}
	}
	for _, step := range seq.Steps {
		at := versions
		if step.Version != "" && seq.Each {
			at = versions[len(versions)-1:]
		}
		for _, v := range at {
			if v < step.From || v > step.To {
				continue
			}
			if err := w.step(step, v); err != nil {
				return w.findings, fmt.Errorf("%s:%d: %w", seq.File, step.Line, err)
			}
		}
	}
	return w.findings, nil
}

// step sends one request to both and compares.
func (w *world) step(step Step, v int) error {
	var asks [2]Ask
	var answers [2]Answer
	if err := w.both(func(side int, _ *Server) (err error) {
		asks[side], err = w.ask(side, step, v)
		return err
	}); err != nil {
		return err
	}
	if err := w.both(func(side int, s *Server) (err error) {
		answers[side], err = send(s.Addr, asks[side])
		return err
	}); err != nil {
		return err
	}
	for side, s := range w.servers() {
		if step.As != "" {
			w.captured[side][step.As] = path.Base(answers[side].Header.Get("Location"))
		}
		answers[side] = w.anonymous(side, s, answers[side])
	}
	w.last = answers[0].Status
	w.pair.Tally.count(answers[0])
	if diffs := w.compare(asks, answers); len(diffs) > 0 {
		w.findings = append(w.findings, Finding{Sequence: w.sequence, Line: step.Line, Version: step.at(v), Ask: asks[0],
			Theirs: answers[0], Ours: answers[1], Diffs: diffs, names: w.replacer()})
	}
	return nil
}

// replacer puts names in place of the UUIDs that stand for them.
func (w *world) replacer() *strings.Replacer {
	var list []string
	for id, name := range w.named {
		list = append(list, id, "$"+name)
	}
	return strings.NewReplacer(list...)
}

// at is the microversion that a step is sent at when its sequence is played at 1.v.
func (s Step) at(v int) string {
	if s.Version != "" {
		return s.Version
	}
	return "1." + strconv.Itoa(v)
}

func (w *world) servers() [2]*Server { return [2]*Server{w.pair.Original, w.pair.Berth} }

// both does something on both servers at the same time.
func (w *world) both(do func(side int, s *Server) error) error {
	var failed [2]error
	var wg sync.WaitGroup
	for side, s := range w.servers() {
		wg.Go(func() {
			if err := do(side, s); err != nil {
				failed[side] = fmt.Errorf("%s: %w", s.Name, err)
			}
		})
	}
	wg.Wait()
	return errors.Join(failed[:]...)
}

// ask makes the request of a step for one of the servers.
func (w *world) ask(side int, step Step, v int) (Ask, error) {
	lookup := func(name, kind string) (string, error) { return w.lookup(side, name, kind) }
	a := Ask{HasBody: step.HasBody}
	var err error
	if a.Method, err = expand(step.Method, lookup); err != nil {
		return a, err
	}
	if a.Target, err = expand(step.Target, lookup); err != nil {
		return a, err
	}
	if a.Body, err = expand(step.Body, lookup); err != nil {
		return a, err
	}
	given := map[string]bool{}
	for _, h := range step.Headers {
		given[strings.ToLower(h.Name)] = true
		if h.Value == "" {
			continue
		}
		if h.Value, err = expand(h.Value, lookup); err != nil {
			return a, err
		}
		a.Headers = append(a.Headers, h)
	}
	usual := []Header{{"X-Auth-Token", "admin"}}
	if step.HasBody {
		usual = append(usual, Header{"Content-Type", "application/json"})
	}
	if at := step.at(v); at != "none" {
		usual = append(usual, Header{"OpenStack-API-Version", "placement " + at})
	}
	for _, h := range usual {
		if !given[strings.ToLower(h.Name)] {
			a.Headers = append(a.Headers, h)
		}
	}
	return a, nil
}

// lookup says what stands for a name: a UUID, or the generation that its provider or consumer has now.
func (w *world) lookup(side int, name, kind string) (string, error) {
	id, ok := w.captured[side][name]
	if !ok {
		id = uuidOf(w.name, name)
		if side == 0 { // the other side makes the same, at the same time
			w.named[id] = name
		}
	}
	s := w.servers()[side]
	var field, target, missing string
	switch kind {
	case "":
		return id, nil
	case ".gen":
		target, field, missing = "/resource_providers/"+id, "generation", "0"
	case ".cgen":
		target, field, missing = "/allocations/"+id, "consumer_generation", "null"
	}
	doc, _, err := s.admin("GET", target)
	if err != nil {
		return "", err
	}
	if value, ok := doc[field]; ok {
		return fmt.Sprint(value), nil
	}
	return missing, nil
}

// anonymous replaces what a server made up by the name it was captured under, and the server's own address.
func (w *world) anonymous(side int, s *Server, a Answer) Answer {
	replace := []string{s.Addr, "SERVER"}
	for name, value := range w.captured[side] {
		if len(value) > 8 {
			replace = append(replace, value, "$"+name)
		}
	}
	r := strings.NewReplacer(replace...)
	a.Body = r.Replace(a.Body)
	for _, values := range a.Header {
		for i := range values {
			values[i] = r.Replace(values[i])
		}
	}
	return a
}

var limited = regexp.MustCompile(`[?&]limit=[0-9]+`)

// compare holds the answers against each other. Candidates with a limit are held against the original's unlimited
// answer.
func (w *world) compare(asks [2]Ask, answers [2]Answer) []string {
	if strings.HasPrefix(asks[0].Target, "/allocation_candidates?") && limited.MatchString(asks[0].Target) &&
		answers[0].Status == 200 && answers[1].Status == 200 {
		return w.compareLimited(asks, answers)
	}
	return w.pair.Rules.Compare(asks[0], answers[0], answers[1])
}

func (w *world) compareLimited(asks [2]Ask, answers [2]Answer) []string {
	diffs, _ := w.pair.Rules.envelope(asks[0], answers[0], answers[1])
	all := asks[0]
	all.Target = limited.ReplaceAllString(all.Target, "")
	if !strings.Contains(all.Target, "?") {
		all.Target = strings.Replace(all.Target, "&", "?", 1)
	}
	whole, err := send(w.pair.Original.Addr, all)
	if err != nil {
		return append(diffs, err.Error())
	}
	whole = w.anonymous(0, w.pair.Original, whole)
	doc, _, err := w.pair.Original.admin("GET", "/resource_providers")
	if err != nil {
		return append(diffs, err.Error())
	}
	roots := map[string]string{}
	providers, _ := doc["resource_providers"].([]any)
	for _, one := range providers {
		p, _ := one.(map[string]any)
		roots[fmt.Sprint(p["uuid"])] = fmt.Sprint(p["root_provider_uuid"])
	}
	return append(diffs, w.pair.Rules.limitedDiffs(all, roots, whole, answers[0], answers[1])...)
}

// admin asks a server something that is not compared, at the newest microversion.
func (s *Server) admin(method, target string) (map[string]any, Answer, error) {
	a := Ask{Method: method, Target: target, Headers: []Header{{"X-Auth-Token", "admin"}, {"OpenStack-API-Version",
		"placement 1." + strconv.Itoa(Latest)}}}
	answer, err := send(s.Addr, a)
	if err != nil {
		return nil, answer, err
	}
	if answer.Body == "" {
		return nil, answer, nil
	}
	doc, err := decode(answer.Body)
	if err != nil {
		return nil, answer, fmt.Errorf("%s %s: %w", method, target, err)
	}
	m, _ := doc.(map[string]any)
	return m, answer, nil
}
