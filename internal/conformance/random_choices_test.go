package conformance

import (
	"fmt"
	"net/url"
	"strings"

	"pgregory.net/rapid"
)

// chooser makes random choices.
type chooser struct{ t *rapid.T }

// number draws a number. Rapid prefers small ones, with which most worlds would be empty and most queries invalid. So
// the numbers are spread out. Zero stays zero, so that shrinking ends at from.
func (d chooser) number(from, to int) int {
	spread := rapid.Uint32().Draw(d.t, "n") * 2654435769 // Knuth's multiplier
	return from + int(uint64(spread)*uint64(to-from+1)>>32)
}

func (d chooser) oneIn(many int) bool          { return d.number(1, many) == many } // true once in many
func (d chooser) choose(list ...string) string { return list[d.number(0, len(list)-1)] }

// sublist draws a sublist, which may be empty.
func (d chooser) sublist(list ...string) (out []string) {
	for _, s := range list {
		if d.oneIn(3) {
			out = append(out, s)
		}
	}
	return out
}

func (d chooser) class() string     { return d.choose("VCPU", "MEMORY_MB", "CUSTOM_X") }
func (d chooser) trait() string     { return d.choose("HW_CPU_X86_VMX", "CUSTOM_T", "CUSTOM_U") }
func (d chooser) aggregate() string { return d.choose("$agga", "$aggb") }
func (d chooser) rp() string        { return fmt.Sprintf("$rp%d", d.number(0, 4)) }

// version draws a microversion, mostly the newest.
func (d chooser) version() int {
	if d.oneIn(3) {
		return d.number(0, Latest)
	}
	return Latest
}

// generation returns the generation of a provider, sometimes a wrong one.
func (d chooser) generation(rp string) string {
	if d.oneIn(8) {
		return d.choose("0", "1", "99", `"x"`, "null")
	}
	return rp + ".gen"
}

func (d chooser) required() string {
	switch d.number(0, 4) {
	case 0:
		return "!" + d.trait()
	case 1:
		return d.trait() + ",!" + d.trait()
	case 2:
		return "in:" + d.trait() + "," + d.trait()
	case 3:
		return d.trait() + "," + d.trait()
	}
	return d.trait()
}

func (d chooser) memberOf() string {
	if d.oneIn(10) {
		return d.aggregate() + "," + d.aggregate()
	}
	return d.choose("", "", "!", "in:", "!in:", "in:"+d.aggregate()+",", "!in:"+d.aggregate()+",") + d.aggregate()
}

// query returns a query string of keys and values, in order.
func query(pairs ...string) string {
	var parts []string
	for i := 0; i < len(pairs); i += 2 {
		parts = append(parts, pairs[i]+"="+url.QueryEscape(pairs[i+1]))
	}
	return strings.Join(parts, "&")
}

func quoted(list []string) string {
	if len(list) == 0 {
		return "[]"
	}
	return `["` + strings.Join(list, `", "`) + `"]`
}
