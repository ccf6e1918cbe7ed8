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

// Pair is a pair of servers with the rules for comparing their answers. It plays one sequence at a time.
type Pair struct {
	Original, Berth *Server
	Rules           Rules
	Counts          *Counts
}

// Counts counts the compared requests.
type Counts struct {
	Requests   atomic.Int64 // all
	Candidates atomic.Int64 // those answered with a list of candidates
	Found      atomic.Int64 // those answered with a list that is not empty
}

// String returns the counts as a sentence.
func (t *Counts) String() string {
	return fmt.Sprintf("%d requests compared with OpenStack's own Placement, %d of them for candidates, %d with "+
		"results",
		t.Requests.Load(), t.Candidates.Load(), t.Found.Load())
}

func (t *Counts) count(theirs Answer) {
	t.Requests.Add(1)
	if theirs.Status == 200 && strings.HasPrefix(theirs.Body, `{"allocation_requests": [`) {
		t.Candidates.Add(1)
		if !strings.HasPrefix(theirs.Body, `{"allocation_requests": []`) {
			t.Found.Add(1)
		}
	}
}

// Finding is a request that the two servers answered differently.
type Finding struct {
	Sequence     string
	Line         int
	Version      string
	Request      Request
	Theirs, Ours Answer
	Diffs        []string
	names        *strings.Replacer // replaces UUIDs by their names
}

// String returns the finding as readable text.
func (f Finding) String() string {
	text := fmt.Sprintf("%s, line %d, at %s\n  request:  %s\n  original: %s\n  berth:    %s\n  - %s",
		f.Sequence, f.Line, f.Version, f.Request, f.Theirs, f.Ours, strings.Join(f.Diffs, "\n  - "))
	if f.names == nil {
		return text
	}
	return f.names.Replace(text)
}

// world is the state of a sequence that is played on both servers.
type world struct {
	pair       *Pair
	sequence   string
	name       string               // the namespace of its UUIDs
	captured   [2]map[string]string // values that the servers generated, by name
	nameOf     map[string]string    // by UUID
	lastStatus int                  // of the original's last answer
	findings   []Finding
}

func newWorld(p *Pair, sequence, name string) *world {
	return &world{pair: p, sequence: sequence, name: name, captured: [2]map[string]string{{}, {}},
		nameOf: map[string]string{}}
}

// Play plays before, which builds the world, and then a sequence at a microversion. It returns the requests that were
// answered differently. The databases must be empty; see Reset. If EachVersion is set, every request without a fixed
// version is sent at all versions, one after the other. Play returns an error if a server does not answer or the
// sequence is not valid.
func (p *Pair) Play(seq Sequence, before []Step, versions ...int) ([]Finding, error) {
	w := newWorld(p, seq.File+": "+seq.Name, fmt.Sprint(seq.File, seq.Name, versions))
	for _, step := range before {
		if err := w.step(step, Latest); err != nil {
			return w.findings, err
		}
	}
	for _, step := range seq.Steps {
		at := versions
		if step.Version != "" && seq.EachVersion {
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

// step sends one request to both servers and compares the answers.
func (w *world) step(step Step, v int) error {
	var requests [2]Request
	var answers [2]Answer
	if err := w.onBoth(func(side int, _ *Server) (err error) {
		requests[side], err = w.request(side, step, v)
		return err
	}); err != nil {
		return err
	}
	if err := w.onBoth(func(side int, s *Server) (err error) {
		answers[side], err = send(s.Addr, requests[side])
		return err
	}); err != nil {
		return err
	}
	for side, s := range w.servers() {
		if step.As != "" {
			w.captured[side][step.As] = path.Base(answers[side].Header.Get("Location"))
		}
		answers[side] = w.normalized(side, s, answers[side])
	}
	w.lastStatus = answers[0].Status
	w.pair.Counts.count(answers[0])
	if diffs := w.compare(requests, answers); len(diffs) > 0 {
		w.findings = append(w.findings, Finding{Sequence: w.sequence, Line: step.Line, Version: step.at(v),
			Request: requests[0],
			Theirs:  answers[0], Ours: answers[1], Diffs: diffs, names: w.replacer()})
	}
	return nil
}

// replacer returns a replacer of UUIDs by their names.
func (w *world) replacer() *strings.Replacer {
	var list []string
	for id, name := range w.nameOf {
		list = append(list, id, "$"+name)
	}
	return strings.NewReplacer(list...)
}

// at returns the microversion of a step when its sequence is played at 1.v.
func (s Step) at(v int) string {
	if s.Version != "" {
		return s.Version
	}
	return "1." + strconv.Itoa(v)
}

func (w *world) servers() [2]*Server { return [2]*Server{w.pair.Original, w.pair.Berth} }

// onBoth calls do for both servers at the same time.
func (w *world) onBoth(do func(side int, s *Server) error) error {
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

// request returns the request of a step for one of the servers.
func (w *world) request(side int, step Step, v int) (Request, error) {
	lookup := func(name, kind string) (string, error) { return w.lookup(side, name, kind) }
	a := Request{HasBody: step.HasBody}
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
	defaults := []Header{{"X-Auth-Token", "admin"}}
	if step.HasBody {
		defaults = append(defaults, Header{"Content-Type", "application/json"})
	}
	if at := step.at(v); at != "none" {
		defaults = append(defaults, Header{"OpenStack-API-Version", "placement " + at})
	}
	for _, h := range defaults {
		if !given[strings.ToLower(h.Name)] {
			a.Headers = append(a.Headers, h)
		}
	}
	return a, nil
}

// lookup returns the value of a name: a UUID, or the current generation of its provider or consumer.
func (w *world) lookup(side int, name, kind string) (string, error) {
	id, ok := w.captured[side][name]
	if !ok {
		id = uuidOf(w.name, name)
		if side == 0 { // the other side computes the same UUID concurrently
			w.nameOf[id] = name
		}
	}
	switch kind {
	case ".gen":
		return w.servers()[side].generation(kind, id, "0")
	case ".cgen":
		return w.servers()[side].generation(kind, id, "null")
	}
	return id, nil
}

// normalized replaces the values that a server generated by the names under which they were captured, and the server's
// address.
func (w *world) normalized(side int, s *Server, a Answer) Answer {
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

var limitParameter = regexp.MustCompile(`[?&]limit=[0-9]+`)

// compare compares the answers. Candidates with a limit are also compared with the original's unlimited answer.
func (w *world) compare(requests [2]Request, answers [2]Answer) []string {
	if strings.HasPrefix(requests[0].Target, "/allocation_candidates?") &&
		limitParameter.MatchString(requests[0].Target) &&
		answers[0].Status == 200 && answers[1].Status == 200 {
		return w.compareLimited(requests, answers)
	}
	return w.pair.Rules.Compare(requests[0], answers[0], answers[1])
}

func (w *world) compareLimited(requests [2]Request, answers [2]Answer) []string {
	diffs, _ := w.pair.Rules.envelope(requests[0], answers[0], answers[1])
	all := requests[0]
	all.Target = limitParameter.ReplaceAllString(all.Target, "")
	if !strings.Contains(all.Target, "?") {
		all.Target = strings.Replace(all.Target, "&", "?", 1)
	}
	unlimited, err := send(w.pair.Original.Addr, all)
	if err != nil {
		return append(diffs, err.Error())
	}
	unlimited = w.normalized(0, w.pair.Original, unlimited)
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
	return append(diffs, w.pair.Rules.limitedDiffs(all, roots, unlimited, answers[0], answers[1])...)
}

// admin sends a request at the newest microversion whose answer is not compared.
func (s *Server) admin(method, target string) (map[string]any, Answer, error) {
	a := Request{Method: method, Target: target, Headers: []Header{{"X-Auth-Token", "admin"}, {"OpenStack-API-Version",
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
