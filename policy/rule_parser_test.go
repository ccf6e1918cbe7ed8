package policy

import (
	"strings"
	"testing"
)

func TestParsedCheckPrintsLikeOsloPolicy(t *testing.T) {
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

func TestParseRejectsRules(t *testing.T) {
	for text, why := range map[string]string{
		"  \n":                            "only blanks",
		"admin":                           `"admin" is not a check`,
		"role:a role:b":                   `"role:b" is where and, or or the end`,
		"role:a and":                      "ends where a check is expected",
		"and role:a":                      `"and" is where a check is expected`,
		"role:a or or role:b":             `"or" is where a check is expected`,
		"not":                             "ends where a check is expected",
		"(role:a":                         "not closed",
		"role:a)":                         `")" is where`,
		"()":                              `")" is where a check is expected`,
		`"alone"`:                         "without a comparison",
		`'a':'b'`:                         "without a comparison",
		`'a:%(x)s`:                        "neither the name of a credential nor a literal",
		":x":                              "neither the name of a credential nor a literal",
		"%(x)s:x":                         "neither the name of a credential nor a literal",
		"a..b:x":                          "neither the name of a credential nor a literal",
		"0x10:x":                          "neither the name of a credential nor a literal",
		"01:x":                            "neither the name of a credential nor a literal",
		`'a\n':x`:                         "neither the name of a credential nor a literal",
		"a:%":                             "does not begin %(key)s",
		"a:%(x":                           "does not begin %(key)s",
		"a:%(x)d":                         "does not begin %(key)s",
		"role:50%x":                       "does not begin %(key)s",
		"http://h/%20":                    "does not begin %(key)s",
		strings.Repeat("(", 999):          "nested more than",
		strings.Repeat("not ", 999) + "@": "nested more than",
		"role:" + strings.Repeat("a", maxRuleBytes): "longer than",
	} {
		if check, err := Parse(text); err == nil || !strings.Contains(err.Error(), why) {
			t.Errorf("%.40q: %v, %v; want an error with %q", text, check, err, why)
		}
	}
}

func TestParseListReadsOldSyntax(t *testing.T) {
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
			t.Errorf("%v is parsed as %q, want an error", wrong, check)
		}
	}
}

// FuzzParse checks that a parsed rule prints as text that parses to the same rule, and that its evaluation does not
// panic.
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
			t.Fatalf("%q prints %q, which parses as %q, %v", text, printed, again, err)
		}
		if strings.Contains(text, "http") {
			return // the check would send a request
		}
		creds := Creds{"roles": []string{"admin"}, "a": map[string]any{"b": []any{"x", nil, 1.5}}, "project_id": "p"}
		set := &ruleset{rules: map[string]entry{"a": {check: Check{constant(true)}}}}
		target := map[string]any{"project_id": "p", "x": nil, "d": 1}
		first, _ := check.root.holds(&evaluation{set: set, creds: creds, target: target})
		second, _ := again.root.holds(&evaluation{set: set, creds: creds, target: target})
		if first != second {
			t.Fatalf("%q returns %v, but after printing and parsing %v", text, first, second)
		}
	})
}
