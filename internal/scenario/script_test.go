package scenario

import (
	"slices"
	"testing"
)

func TestParse(t *testing.T) {
	t.Parallel()
	text := "# what it is\n\nhost a\n  [x]\n    y\n* berth b\n----\none\n two\n\nlast\n"
	steps, err := parse(text)
	if err != nil || len(steps) != 3 {
		t.Fatalf("%+v %v", steps, err)
	}
	if s := steps[0]; s.command != "host a" || s.input != "[x]\n  y\n" || s.expects || s.repeat {
		t.Errorf("%+v", s)
	}
	if s := steps[1]; s.command != "berth b" || !s.repeat || s.line != 6 ||
		!slices.Equal(s.want, []string{"one", " two"}) {
		t.Errorf("%+v", s)
	}
	want := "# what it is\n\nhost a\n  [x]\n    y\n* berth b\n----\nthree\n\nlast\n"
	if got := rewritten(text, steps, map[int][]string{1: {"three"}}); got != want {
		t.Errorf("rewritten:\n%s", got)
	}
	for _, wrong := range []string{"----\nx\n", "  x\n", "a\n----\nx\n\n----\ny\n"} {
		if _, err := parse(wrong); err == nil {
			t.Errorf("%q is accepted", wrong)
		}
	}
}

func TestMatches(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		want, got []string
		is        bool
	}{
		{nil, nil, true},
		{nil, []string{"a"}, false},
		{[]string{"a"}, []string{"a"}, true},
		{[]string{"a"}, []string{"a", "b"}, false},
		{[]string{"a"}, nil, false},
		{[]string{"x ... y"}, []string{"x 1 y"}, true},
		{[]string{"x ... y"}, []string{"x 1 z"}, false},
		{[]string{"a.c"}, []string{"abc"}, false},
		{[]string{"a.c ..."}, []string{"abc "}, false},
		{[]string{"..."}, nil, true},
		{[]string{"...", "b"}, []string{"a", "a", "b"}, true},
		{[]string{"...", "b"}, []string{"a", "b", "c"}, false},
	} {
		if is := matches(c.want, c.got); is != c.is {
			t.Errorf("%q matches %q: %v", c.want, c.got, is)
		}
	}
	if got := tidy("a     b  \n\n c d\n"); !slices.Equal(got, []string{"a  b", " c d"}) {
		t.Errorf("%q", got)
	}
}
