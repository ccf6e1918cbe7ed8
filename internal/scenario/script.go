package scenario

import (
	"fmt"
	"os"
	"regexp"
	"strings"
)

// step is one command of a script.
type step struct {
	line    int    // of the command, from 1
	command string // with its arguments
	input   string // the indented lines below it, without their indentation
	repeat  bool   // the command is repeated until its result is as expected

	expects bool     // the script has a result
	want    []string // the lines of the result

	first, last int // the lines of the result in the script, from 0; last is behind it
}

// marker separates a command from its expected result.
const marker = "----"

// parse returns the steps of a script. A script has a command a line; indented lines below it are its input. A line
// with four dashes begins the expected result of the last command, which ends at an empty line. Lines with # are
// comments.
func parse(text string) (steps []step, err error) {
	lines := strings.Split(text, "\n")
	for i := 0; i < len(lines); i++ {
		line := lines[i]
		switch {
		case strings.TrimSpace(line) == "" || strings.HasPrefix(line, "#"):
		case line == marker:
			if len(steps) == 0 || steps[len(steps)-1].expects {
				return nil, fmt.Errorf("line %d: a result without a command", i+1)
			}
			s := &steps[len(steps)-1]
			for s.expects, s.first = true, i+1; i+1 < len(lines) && lines[i+1] != ""; i++ {
				s.want = append(s.want, lines[i+1])
			}
			s.last = i + 1
		case strings.HasPrefix(line, "  "):
			if len(steps) == 0 || steps[len(steps)-1].expects {
				return nil, fmt.Errorf("line %d: input without a command", i+1)
			}
			steps[len(steps)-1].input += strings.TrimPrefix(line, "  ") + "\n"
		default:
			command, repeat := strings.CutPrefix(line, "* ")
			steps = append(steps, step{line: i + 1, command: command, repeat: repeat})
		}
	}
	return steps, nil
}

// rewritten returns the script with other results, by the index of the step.
func rewritten(text string, steps []step, results map[int][]string) string {
	lines := strings.Split(text, "\n")
	var out []string
	from := 0
	for i, s := range steps {
		if result, other := results[i]; other {
			out = append(append(out, lines[from:s.first]...), result...)
			from = s.last
		}
	}
	return strings.Join(append(out, lines[from:]...), "\n")
}

// matches reports whether lines are as expected. In an expected line "..." is any text; a line of only "..." is any
// number of lines.
func matches(want, got []string) bool {
	if len(want) == 0 {
		return len(got) == 0
	}
	if strings.TrimSpace(want[0]) == "..." {
		for n := 0; n <= len(got); n++ {
			if matches(want[1:], got[n:]) {
				return true
			}
		}
		return false
	}
	return len(got) > 0 && matchesLine(want[0], got[0]) && matches(want[1:], got[1:])
}

// matchesLine reports whether a line is as expected.
func matchesLine(want, got string) bool {
	if !strings.Contains(want, "...") {
		return want == got
	}
	parts := strings.Split(want, "...")
	for i, part := range parts {
		parts[i] = regexp.QuoteMeta(part)
	}
	return regexp.MustCompile("^" + strings.Join(parts, ".*") + "$").MatchString(got)
}

var columns = regexp.MustCompile("   +")

// tidy returns the lines of a result without spaces at their ends, with two spaces between columns, and without empty
// lines, which end a result in a script.
func tidy(text string) (lines []string) {
	for line := range strings.Lines(text) {
		if line = strings.TrimRight(columns.ReplaceAllString(line, "  "), " \n"); line != "" {
			lines = append(lines, line)
		}
	}
	return lines
}

// read returns the text of a script and its steps.
func read(path string) (text string, steps []step, err error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return "", nil, err
	}
	steps, err = parse(string(data))
	return string(data), steps, err
}
