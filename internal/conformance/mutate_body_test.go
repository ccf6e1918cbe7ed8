package conformance

import (
	"regexp"
	"strings"
)

// member matches a member of an object whose value is not an object or a list.
var member = regexp.MustCompile(`"([a-z_]+|[A-Z_]+)": ("[^"]*"|[^,{}\[\]" ]+)(, )?`)

// oddValues are values that are mostly wrong where a client sends them.
var oddValues = []string{"null", "true", `""`, `"x"`, "-1", "0", "1", "1.0", "2.5", "1e0", "1e30",
	"99999999999999999999",
	"2147483648", `"1"`, "[]", "{}", `["x"]`,
	`"VCPU"`, `"$rp0"`, `"ä\u20ac"`, "[[]]", `{"x": 1}`}

// mutate changes one place in a body: it replaces a value, or removes, repeats or adds a member.
func (d chooser) mutate(body string) string {
	places := member.FindAllStringSubmatchIndex(body, -1)
	if len(places) == 0 {
		return d.choose(oddValues...)
	}
	at := places[d.number(0, len(places)-1)]
	from, to, value, end := at[0], at[1], at[4], at[5]
	kind := d.number(0, 7)
	if kind == 0 && strings.HasPrefix(body[from:], `"uuid"`) {
		kind = 4 // without a UUID each server would generate another one
	}
	switch kind {
	case 0:
		return strings.Replace(body[:from]+body[to:], ", }", "}", 1)
	case 1:
		return body[:from] + `"more": ` + d.choose(oddValues...) + ", " + body[from:]
	case 2:
		return body[:from] + body[from:end] + ", " + body[from:]
	case 3:
		return body[:value] + d.choose(oddValues...) + ", " + body[from:value] + body[value:]
	}
	return body[:value] + d.choose(oddValues...) + body[end:]
}
