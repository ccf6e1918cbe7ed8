package policy

import (
	"strings"
	"testing"
)

func TestParsePrints(t *testing.T) {
	for text, want := range map[string]string{
		"":                                      "@",
		"@":                                     "@",
		"!":                                     "!",
		"role:admin":                            "role:admin",
		"rule:a and not role:b or @":            "((rule:a and not role:b) or @)",
		"a:1 OR b:2 aNd c:3 and d:4":            "(a:1 or (b:2 and c:3 and d:4))",
		"(a:1 or b:2) and not (c:3 or not d:4)": "((a:1 or b:2) and not (c:3 or not d:4))",
		"not not a:%(x)s":                       "not not a:%(x)s",
		"( ((a:%(p(q))s)) )":                    "a:%(p(q))s",
		"http://127.0.0.1/%(name)s":             "http://127.0.0.1/%(name)s",
		"'member':%(role.name)s":                "'member':%(role.name)s",
		"a:\u00a0or\u2003b:\x1cor\x1dc:":        "(a: or b: or c:)",
		"name::::":                              "name::::",
	} {
		check, err := Parse(text)
		if err != nil || check.String() != want {
			t.Errorf("%q: %q, %v; want %q", text, check, err, want)
			continue
		}
		if again, err := Parse(check.String()); err != nil || again.String() != want {
			t.Errorf("%q, parsed again: %q, %v", want, again, err)
		}
	}
}

func TestParseRefuses(t *testing.T) {
	for text, why := range map[string]string{
		"  \n":                            "nothing but blanks",
		"admin":                           `"admin" is no check`,
		"role:a role:b":                   `"role:b" stands where and, or or the end`,
		"role:a and":                      "ends where a check should stand",
		"and role:a":                      `"and" stands where a check should`,
		"role:a or or role:b":             `"or" stands where a check should`,
		"not":                             "ends where a check should stand",
		"(role:a":                         "not closed",
		"role:a)":                         `")" stands where`,
		"()":                              `")" stands where a check should`,
		`"alone"`:                         "compared with nothing",
		`'a':'b'`:                         "compared with nothing",
		`'a:%(x)s`:                        "neither the name of a credential nor a literal",
		":x":                              "neither the name of a credential nor a literal",
		"%(x)s:x":                         "neither the name of a credential nor a literal",
		"a..b:x":                          "neither the name of a credential nor a literal",
		"0x10:x":                          "neither the name of a credential nor a literal",
		"01:x":                            "neither the name of a credential nor a literal",
		`'a\n':x`:                         "neither the name of a credential nor a literal",
		"a:%":                             "begins no %(key)s",
		"a:%(x":                           "begins no %(key)s",
		"a:%(x)d":                         "begins no %(key)s",
		"role:50%x":                       "begins no %(key)s",
		"http://h/%20":                    "begins no %(key)s",
		strings.Repeat("(", 999):          "nested more than",
		strings.Repeat("not ", 999) + "@": "nested more than",
		"role:" + strings.Repeat("a", longestRule): "longer than",
	} {
		if check, err := Parse(text); err == nil || !strings.Contains(err.Error(), why) {
			t.Errorf("%.40q: %v, %v; want an error with %q", text, check, err, why)
		}
	}
}

func TestParseList(t *testing.T) {
	list := func(elements ...any) []any { return elements }
	for _, c := range []struct {
		list []any
		want string
	}{
		{list(), "@"},
		{list(list(), "", nil), "!"},
		{list("role:a"), "role:a"},
		{list("role:a", list("role:b", "rule:c")), "(role:a or (role:b and rule:c))"},
		{list(list(), "role:a"), "role:a"},
		{list("role:with blanks"), "role:with blanks"},
	} {
		if check, err := ParseList(c.list); err != nil || check.String() != c.want {
			t.Errorf("%v: %q, %v; want %q", c.list, check, err, c.want)
		}
	}
	for _, wrong := range [][]any{list(5.0), list(list(5.0)), list("role"), list(list("a:%"))} {
		if check, err := ParseList(wrong); err == nil {
			t.Errorf("%v is %q", wrong, check)
		}
	}
}

// What parses prints as itself, and no question brings the judge down.
func FuzzParse(f *testing.F) {
	for _, seed := range []string{"", "@ or !", "role:admin and not (rule:a or " +
		"project_id:%(project_id)s)", "'x y':%(a(b))s", "1.50:1.5", "a.b-c:x%%y",
		"https://h/%(name)s", `"a":b or ("c":%(d)s)`, "((not NOT a:b) AND c:d)", "None:%(x)s", "\x1frole:ü", "-0_0:0"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		check, err := Parse(text)
		if err != nil {
			return
		}
		printed := check.String()
		again, err := Parse(printed)
		if err != nil || again.String() != printed {
			t.Fatalf("%q prints %q, which reads %q, %v", text, printed, again, err)
		}
		if strings.Contains(text, "http") {
			return // it would ask somebody
		}
		creds := Creds{"roles": []string{"admin"}, "a": map[string]any{"b": []any{"x", nil, 1.5}}, "project_id": "p"}
		set := &ruleset{rules: map[string]entry{"a": {check: Check{constant(true)}}}}
		target := map[string]any{"project_id": "p", "x": nil, "d": 1}
		first, _ := check.root.holds(&question{set: set, creds: creds, target: target})
		second, _ := again.root.holds(&question{set: set, creds: creds, target: target})
		if first != second {
			t.Fatalf("%q says %v, printed and parsed %v", text, first, second)
		}
	})
}
