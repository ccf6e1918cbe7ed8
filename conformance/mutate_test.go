package conformance

import (
	"regexp"
	"strings"
)

// member is a member of an object whose value is no object and no list.
var member = regexp.MustCompile(`"([a-z_]+|[A-Z_]+)": ("[^"]*"|[^,{}\[\]" ]+)(, )?`)

// odd values, as clients send them that are wrong, or right by chance.
var odd = []string{"null", "true", `""`, `"x"`, "-1", "0", "1", "1.0", "2.5", "1e0", "1e30", "99999999999999999999",
	"2147483648", `"1"`, "[]", "{}", `["x"]`,
	`"VCPU"`, `"$rp0"`, `"ä\u20ac"`, "[[]]", `{"x": 1}`}

// mutate makes a body wrong in one place: a value is another, a member is left out, there twice, or one too many.
func (d die) mutate(body string) string {
	places := member.FindAllStringSubmatchIndex(body, -1)
	if len(places) == 0 {
		return d.of(odd...)
	}
	at := places[d.n(0, len(places)-1)]
	from, to, value, end := at[0], at[1], at[4], at[5]
	kind := d.n(0, 7)
	if kind == 0 && strings.HasPrefix(body[from:], `"uuid"`) {
		kind = 4 // without it each server would make up one of its own
	}
	switch kind {
	case 0:
		return strings.Replace(body[:from]+body[to:], ", }", "}", 1)
	case 1:
		return body[:from] + `"more": ` + d.of(odd...) + ", " + body[from:]
	case 2:
		return body[:from] + body[from:end] + ", " + body[from:]
	case 3:
		return body[:value] + d.of(odd...) + ", " + body[from:value] + body[value:]
	}
	return body[:value] + d.of(odd...) + body[end:]
}
