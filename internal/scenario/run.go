package scenario

import (
	"flag"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/openberth/berth/fault"
	"github.com/openberth/berth/internal/testenv"
)

var rewrite = flag.Bool("rewrite", false, "write the results of commands into the scenarios")

const (
	limit     = testenv.Patience      // for a step that is repeated
	poll      = 30 * time.Millisecond // between two repetitions
	rewriting = 6 * time.Second       // with -rewrite a result is written that has been the same for this time
)

// Run runs the scenario in a file, once for each of its variants.
func Run(t *testing.T, path string) {
	text, steps, err := read(path)
	if err != nil {
		t.Fatalf("%s: %v", path, err)
	}
	variants := 0
	for _, s := range steps {
		if name, is := strings.CutPrefix(s.command, "variant "); is {
			variants++
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				run(t, path, text, steps, s.input)
			})
		}
	}
	if variants == 0 {
		run(t, path, text, steps, "")
	}
}

// run performs the steps of a scenario, with the text of a variant for $VARIANT.
func run(t *testing.T, path, text string, steps []step, variant string) {
	c := newCloud(t)
	c.variant = variant
	others := map[int][]string{}
	defer func() { // also of a scenario that fails
		if len(others) == 0 {
			return
		}
		if err := os.WriteFile(path, []byte(rewritten(text, steps, others)), 0o644); err != nil {
			t.Error(err)
		}
	}()
	for i, s := range steps {
		if strings.HasPrefix(s.command, "variant ") {
			continue
		}
		t.Logf("%s:%d: %s", path, s.line, s.command)
		got, is := c.perform(s)
		switch {
		case is:
		case *rewrite && s.expects:
			others[i] = got
		default:
			t.Fatalf("%s:%d: %s\n%s\nwant\n%s", path, s.line, s.command, join(got), join(s.want))
		}
	}
}

func join(lines []string) (text string) {
	for _, line := range lines {
		text += "\t" + line + "\n"
	}
	return text
}

// perform performs a step and returns its result, and whether that is as expected. A step that the script repeats is
// repeated until it is.
func (c *cloud) perform(s step) (got []string, is bool) {
	end, since := time.Now().Add(limit), time.Now()
	for last := []string(nil); ; last = got {
		out, err := c.once(s)
		got = tidy(c.shown(out))
		if err != nil {
			got = append(got, tidy(c.shown("error: "+fault.TextOf(err)))...)
		}
		if is = err == nil; s.expects {
			is = matches(s.want, got)
		}
		if !slices.Equal(got, last) {
			since = time.Now()
		}
		if is || !s.repeat || time.Now().After(end) || *rewrite && time.Since(since) > rewriting {
			return got, is
		}
		time.Sleep(poll)
	}
}

// shown returns a text with names for ids, and $DIR for the directory of the scenario.
func (c *cloud) shown(text string) string {
	return strings.ReplaceAll(c.names.shown(text), c.dir, "$DIR")
}

// once performs a step once.
func (c *cloud) once(s step) (out string, err error) {
	command, err := c.expand(s.command)
	if err != nil {
		return "", err
	}
	args, err := words(command)
	if err != nil {
		return "", err
	}
	do, known := commands[args[0]]
	if !known || len(args)-1 < do.least {
		return "", fmt.Errorf("there is no command %q with %d arguments", args[0], len(args)-1)
	}
	input, err := c.expand(s.input)
	if err != nil {
		return "", err
	}
	return do.run(c, slices.Clone(args[1:]), input)
}
