package conformance

import (
	"crypto/sha256"
	"fmt"
	"regexp"
	"strconv"
	"strings"
)

// Latest is the newest microversion, 1.Latest; the oldest is 1.0.
const Latest = 39

// Header is a header of a request. An empty value suppresses a default header.
type Header struct{ Name, Value string }

// Step is one request of a sequence.
type Step struct {
	Line           int // in its file; 0: a random request
	Method, Target string
	Headers        []Header
	Body           string
	HasBody        bool
	Version        string // fixed microversion such as 1.39, "none", or "" for the one that the sequence is played at
	From, To       int    // minor versions in which the step is played
	As             string // the name for the last segment of the answer's Location; empty: none
}

// Sequence is a list of requests that starts with empty databases.
type Sequence struct {
	File, Name  string
	EachVersion bool // build the world once and send each request without a fixed version at every microversion
	From, To    int
	Uses        string // the name of the world to build first; empty: none
	Steps       []Step
}

var (
	requestLine = regexp.MustCompile(`^([A-Z]+|\$\("[^ ]*\)) (\S+)((?: (?:@\S+|when \S+|as \S+))*)$`)
	headerLine  = regexp.MustCompile(`^([A-Za-z][A-Za-z0-9-]*):(?: (.*))?$`)
	variable    = regexp.MustCompile(`\$([a-z][a-z0-9]*)(\.gen|\.cgen)?|\$\(("(?:[^"\\]|\\.)*")(?:\*([0-9]+))?\)`)
)

// Parse parses the sequences of a file. An error has the file and the line.
func Parse(file, text string) ([]Sequence, error) {
	p := &parser{file: file}
	for i, line := range strings.Split(text, "\n") {
		if err := p.line(i+1, strings.TrimRight(line, " \t\r")); err != nil {
			return nil, fmt.Errorf("%s:%d: %w", file, i+1, err)
		}
	}
	return p.found, nil
}

type parser struct {
	file  string
	found []Sequence
	open  bool // the next line may be a header or body line of the last step
}

func (p *parser) line(n int, line string) error {
	if strings.HasPrefix(line, "#") {
		return nil
	}
	if line == "" {
		p.open = false
		return nil
	}
	if title, ok := strings.CutPrefix(line, "=== "); ok {
		return p.title(title)
	}
	if len(p.found) == 0 {
		return fmt.Errorf("%q is before the first sequence", line)
	}
	seq := &p.found[len(p.found)-1]
	if name, ok := strings.CutPrefix(line, "use "); ok {
		seq.Uses = name
		return nil
	}
	if m := requestLine.FindStringSubmatch(line); m != nil {
		p.open = true
		return seq.request(n, m)
	}
	if !p.open {
		return fmt.Errorf("%q is not a request", line)
	}
	step := &seq.Steps[len(seq.Steps)-1]
	if body, ok := strings.CutPrefix(line, "|"); ok {
		if step.HasBody {
			step.Body += "\n"
		}
		step.HasBody, step.Body = true, step.Body+strings.TrimPrefix(body, " ")
		return nil
	}
	m := headerLine.FindStringSubmatch(line)
	if m == nil || step.HasBody {
		return fmt.Errorf("%q is neither a header nor a body", line)
	}
	step.Headers = append(step.Headers, Header{m[1], m[2]})
	return nil
}

func (p *parser) title(title string) (err error) {
	p.open = false
	name, options, _ := strings.Cut(title, " | ")
	seq := Sequence{File: p.file, Name: name, To: Latest}
	for _, option := range strings.Fields(options) {
		if option == "each" {
			seq.EachVersion = true
		} else if seq.From, seq.To, err = versions(option); err != nil {
			return err
		}
	}
	for _, other := range p.found {
		if other.Name == name {
			return fmt.Errorf("duplicate sequence name %q", name)
		}
	}
	p.found = append(p.found, seq)
	return nil
}

func (s *Sequence) request(n int, m []string) (err error) {
	step := Step{Line: n, Method: m[1], Target: m[2], To: Latest}
	words := strings.Fields(m[3])
	for i := 0; i < len(words); i++ {
		switch {
		case strings.HasPrefix(words[i], "@"):
			step.Version = words[i][1:]
		case words[i] == "as":
			i++
			step.As = words[i]
		default: // when
			i++
			if step.From, step.To, err = versions(words[i]); err != nil {
				return err
			}
		}
	}
	s.Steps = append(s.Steps, step)
	return nil
}

// versions parses 1.2-1.7, 1.2-, -1.7 or 1.2 and returns the minor versions.
func versions(text string) (from, to int, err error) {
	first, last, ranged := strings.Cut(text, "-")
	from, to = 0, Latest
	if first != "" {
		if from, err = minor(first); err != nil {
			return 0, 0, err
		}
	}
	if !ranged {
		return from, from, nil
	}
	if last != "" {
		to, err = minor(last)
	}
	return from, to, err
}

func minor(text string) (int, error) {
	n, err := strconv.Atoi(strings.TrimPrefix(text, "1."))
	if err != nil || !strings.HasPrefix(text, "1.") || n < 0 || n > Latest {
		return 0, fmt.Errorf("%q is not a microversion from 1.0 to 1.%d", text, Latest)
	}
	return n, nil
}

// expand replaces the variables of a text. lookup returns the value of a name; kind is "", ".gen" or ".cgen".
func expand(text string, lookup func(name, kind string) (string, error)) (string, error) {
	var failed error
	out := variable.ReplaceAllStringFunc(text, func(found string) string {
		m := variable.FindStringSubmatch(found)
		if m[3] == "" {
			value, err := lookup(m[1], m[2])
			if err != nil && failed == nil {
				failed = err
			}
			return value
		}
		piece, err := strconv.Unquote(m[3])
		if err != nil && failed == nil {
			failed = fmt.Errorf("%s: %w", found, err)
		}
		times := 1
		if m[4] != "" {
			if times, err = strconv.Atoi(m[4]); err != nil && failed == nil {
				failed = fmt.Errorf("%s: %w", found, err)
			}
		}
		return strings.Repeat(piece, times)
	})
	return out, failed
}

// uuidOf returns the UUID of a name in a world.
func uuidOf(world, name string) string {
	h := sha256.Sum256([]byte(world + "\x00" + name))
	h[6], h[8] = h[6]&0x0f|0x40, h[8]&0x3f|0x80
	return fmt.Sprintf("%x-%x-%x-%x-%x", h[0:4], h[4:6], h[6:8], h[8:10], h[10:16])
}
