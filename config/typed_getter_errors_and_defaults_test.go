package config

import (
	"math"
	"testing"

	"github.com/openberth/berth/fault"
)

func TestReadErrorNamesPlaceProblemAndRemedy(t *testing.T) {
	c := parseConfig(t, "[a]\nword = many\nnumber = 10\nreal = 1.5\nnan = nan\ninf = -inf\nbig = "+
		"99999999999999999999\nlost = $nowhere\nself = x$self\n")
	errorOf := func(_ any, err error) error { return err }
	cases := []struct {
		err  error
		want string
	}{
		{errorOf(c.Bool("a", "word", true)), "first.conf:2: [a] word = many: is neither true nor false; write true or " +
			"false (also yes and no, on and off, 1 and 0)"},
		{errorOf(c.Int("a", "word", 1, math.MinInt, math.MaxInt)), "first.conf:2: [a] word = many: is not a whole number; " +
			"write one such as 7"},
		{errorOf(c.Int("a", "number", 1, 1, 9)), "first.conf:3: [a] number = 10: is out of bounds; write a whole " +
			"number from 1 to 9"},
		{errorOf(c.Int("a", "number", 1, 11, math.MaxInt)), "first.conf:3: [a] number = 10: is out of bounds; write a " +
			"whole number of at least 11"},
		{errorOf(c.Int("a", "big", 1, math.MinInt, 9)), "first.conf:7: [a] big = 99999999999999999999: is not a whole " +
			"number; write one of at most 9"},
		{errorOf(c.Float("a", "real", 1, 0, 1)), "first.conf:4: [a] real = 1.5: is out of bounds; write a number from " +
			"0 to 1"},
		{errorOf(c.Float("a", "nan", 1, 0, math.Inf(1))), "first.conf:5: [a] nan = nan: is not a number; write one of at " +
			"least 0"},
		{errorOf(c.Float("a", "inf", 1, math.Inf(-1), math.Inf(1))), "first.conf:6: [a] inf = -inf: is not a number; " +
			"write one such as 7"},
		{errorOf(c.String("a", "word", "", []string{"one", "two"})),
			"first.conf:2: [a] word = many: is not a valid choice; " +
				"write one of one, two"},
		{errorOf(c.String("a", "lost", "", nil)), "first.conf:8: [a] lost = $nowhere: $nowhere names an option that no " +
			"file sets; set it, or write $$ for a dollar sign"},
		{errorOf(c.Strings("a", "self", nil)), "first.conf:9: [a] self = x$self: $self leads back to the option itself"},
	}
	for _, c := range cases {
		wantFault(t, c.err, fault.Invalid, c.want)
	}
}

func TestUnsetOptionHasDefault(t *testing.T) {
	c := parseConfig(t, "[a]\nn =\nf =\n")
	b, _ := c.Bool("a", "none", true)
	i, _ := c.Int("a", "n", 7, 0, 9)
	f, _ := c.Float("a", "f", 0.5, 0, 1)
	s, _ := c.String("a", "none", "d", nil)
	l, _ := c.Strings("a", "none", []string{"d"})
	if !b || i != 7 || f != 0.5 || s != "d" || len(l) != 1 {
		t.Errorf("got %v %v %v %v %v", b, i, f, s, l)
	}
}
