package policy

import (
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"unicode"
)

const (
	maxRuleBytes = 64 << 10 // bytes
	maxDepth     = 200      // parentheses and `not`s inside one another
)

// Parse parses a rule in oslo.policy's language. The empty text and @ allow all, ! allows nothing. not, and, or (in
// decreasing order of precedence, in upper or lower case) and parentheses combine checks:
//
//	role:admin                       the credentials have the role, ignoring case
//	rule:owner                       another rule allows the request
//	project_id:%(project_id)s        the credentials' project_id is the target's
//	token.project.domain.id:default  a nested value of the credentials; of lists, any element
//	'member':%(role.name)s           a literal (text in quotes, a number, True, False, None) is the target's value
//	http://server/%(name)s           a server answers True
//
// A rule that oslo.policy logs and then denies, or that makes it fail at each request, is an error here.
func Parse(text string) (Check, error) {
	if len(text) > maxRuleBytes {
		return Check{}, fmt.Errorf("the rule is longer than %d bytes", maxRuleBytes)
	}
	if text == "" {
		return Check{constant(true)}, nil
	}
	tokens, err := tokenize(text)
	if err != nil {
		return Check{}, err
	}
	p := &parser{tokens: tokens}
	root, err := p.parseOr(0)
	if err != nil {
		return Check{}, err
	}
	if p.at < len(p.tokens) {
		return Check{}, fmt.Errorf("%q is where and, or or the end of the rule is expected", p.tokens[p.at].text)
	}
	return Check{root}, nil
}

// ParseList parses a rule in the old syntax: a list of alternatives, each of them a check or a list of checks that all
// must be met. An empty list allows all; a list of empty alternatives only allows nothing.
func ParseList(list []any) (Check, error) {
	if len(list) == 0 {
		return Check{constant(true)}, nil
	}
	var alternatives anyOf
	for _, inner := range list {
		checks, ok := inner.([]any)
		if text, isText := inner.(string); isText && text != "" {
			checks, ok = []any{text}, true
		}
		if !ok && inner != nil && inner != "" {
			return Check{}, fmt.Errorf("%v is neither a check nor a list of checks", inner)
		}
		if len(checks) == 0 {
			continue
		}
		var together allOf
		for _, one := range checks {
			text, ok := one.(string)
			if !ok {
				return Check{}, fmt.Errorf("%v is not a check", one)
			}
			n, err := parseCheck(text)
			if err != nil {
				return Check{}, err
			}
			together = append(together, n)
		}
		if len(together) == 1 {
			alternatives = append(alternatives, together[0])
		} else {
			alternatives = append(alternatives, together)
		}
	}
	switch len(alternatives) {
	case 0:
		return Check{constant(false)}, nil
	case 1:
		return Check{alternatives[0]}, nil
	}
	return Check{alternatives}, nil
}

// token is a word of the language. Its kind is one of ( ) and or not check.
type token struct {
	kind, text string
	check      node
}

// tokenize splits a rule at blanks, and splits parentheses off both ends of each part. Parentheses inside a part belong
// to %(key)s.
func tokenize(text string) (tokens []token, err error) {
	for _, part := range strings.FieldsFunc(text, isSpace) {
		inner := strings.TrimLeft(part, "(")
		for range len(part) - len(inner) {
			tokens = append(tokens, token{kind: "(", text: "("})
		}
		word := strings.TrimRight(inner, ")")
		switch lower := strings.ToLower(word); {
		case lower == "and" || lower == "or" || lower == "not":
			tokens = append(tokens, token{kind: lower, text: word})
		case word == "":
		case len(inner) >= 2 && (inner[0] == '"' || inner[0] == '\'') && inner[len(inner)-1] == inner[0]:
			return nil, fmt.Errorf("%s is text in quotes without a comparison; write %s:%%(key)s", word, word)
		default:
			n, err := parseCheck(word)
			if err != nil {
				return nil, err
			}
			tokens = append(tokens, token{kind: "check", text: word, check: n})
		}
		for range len(inner) - len(word) {
			tokens = append(tokens, token{kind: ")", text: ")"})
		}
	}
	if len(tokens) == 0 {
		return nil, errors.New(`the rule has only blanks; write "@" to allow all or "!" to allow nothing`)
	}
	return tokens, nil
}

// isSpace reports whether Python's \s matches a character.
func isSpace(r rune) bool { return unicode.IsSpace(r) || r >= 0x1c && r <= 0x1f }

// parser reads the tokens from left to right.
type parser struct {
	tokens []token
	at     int
}

// take skips the next token if it has this kind, and reports whether it does.
func (p *parser) take(kind string) bool {
	if p.at < len(p.tokens) && p.tokens[p.at].kind == kind {
		p.at++
		return true
	}
	return false
}

// parseOr parses one or more alternatives.
func (p *parser) parseOr(depth int) (node, error) {
	return p.parseOperands("or", depth, p.parseAnd, func(list []node) node { return anyOf(list) })
}

// parseAnd parses one or more checks that all must be met.
func (p *parser) parseAnd(depth int) (node, error) {
	return p.parseOperands("and", depth, p.parsePrimary, func(list []node) node { return allOf(list) })
}

// parseOperands parses one or more operands with an operator between them. It joins them if there are several.
func (p *parser) parseOperands(operator string, depth int, operand func(depth int) (node, error),
	join func([]node) node) (node, error) {
	var nodes []node
	for {
		next, err := operand(depth)
		if err != nil {
			return nil, err
		}
		nodes = append(nodes, next)
		if p.take(operator) {
			continue
		}
		if len(nodes) == 1 {
			return next, nil
		}
		return join(nodes), nil
	}
}

// parsePrimary parses a check, a negation or an expression in parentheses.
func (p *parser) parsePrimary(depth int) (node, error) {
	if depth > maxDepth {
		return nil, fmt.Errorf("the rule is nested more than %d deep", maxDepth)
	}
	switch {
	case p.take("not"):
		inner, err := p.parsePrimary(depth + 1)
		if err != nil {
			return nil, err
		}
		return negation{inner}, nil
	case p.take("("):
		inner, err := p.parseOr(depth + 1)
		if err != nil {
			return nil, err
		}
		if !p.take(")") {
			return nil, errors.New("a parenthesis is not closed")
		}
		return inner, nil
	case p.take("check"):
		return p.tokens[p.at-1].check, nil
	case p.at == len(p.tokens):
		return nil, errors.New("the rule ends where a check is expected")
	}
	return nil, fmt.Errorf("%q is where a check is expected", p.tokens[p.at].text)
}

// parseCheck parses one check: the text before the first colon selects its kind.
func parseCheck(text string) (node, error) {
	switch text {
	case "@":
		return constant(true), nil
	case "!":
		return constant(false), nil
	}
	kind, match, found := strings.Cut(text, ":")
	if !found {
		return nil, fmt.Errorf("%q is not a check; write one such as role:admin, rule:name or "+
			"project_id:%%(project_id)s", text)
	}
	if kind == "rule" {
		return byRule(match), nil
	}
	of, err := parseFormat(match)
	if err != nil {
		return nil, err
	}
	switch kind {
	case "role":
		return byRole{of}, nil
	case "http", "https":
		return byRemote{kind, of}, nil
	}
	if value, ok := literal(kind); ok {
		return byLiteral{kind, value, of}, nil
	}
	if !nameOfCredential.MatchString(kind) {
		return nil, fmt.Errorf("%q, before the colon of %q, is neither the name of a credential nor a "+
			"literal", kind, text)
	}
	return byPath{kind, strings.Split(kind, "."), of}, nil
}

var (
	nameOfCredential = regexp.MustCompile(`^[\pL_][\pL\pM\pN_-]*(\.[\pL_][\pL\pM\pN_-]*)*$`)
	wholeNumber      = regexp.MustCompile(`^[+-]?(0+(_?0)*|[1-9](_?[0-9])*)$`)
	realNumber       = regexp.MustCompile(`^[+-]?([0-9]+\.[0-9]*|\.[0-9]+|[0-9]+)([eE][+-]?[0-9]+)?$`)
)

// literal returns a Python literal as str() prints it, and whether kind is one: quoted text without escapes, True,
// False, None and decimal numbers.
func literal(kind string) (string, bool) {
	switch kind {
	case "True", "False", "None":
		return kind, true
	}
	if n := len(kind); n >= 2 && (kind[0] == '"' || kind[0] == '\'') && kind[n-1] == kind[0] {
		inner := kind[1 : n-1]
		return inner, !strings.ContainsAny(inner, "\\\n\r"+kind[:1])
	}
	if wholeNumber.MatchString(kind) {
		digits := strings.ReplaceAll(kind, "_", "")
		sign := ""
		if digits[0] == '-' {
			sign = "-"
		}
		if digits = strings.TrimLeft(digits, "+-0"); digits == "" {
			return "0", true
		}
		return sign + digits, true
	}
	if realNumber.MatchString(kind) && strings.ContainsAny(kind, ".eE") {
		number, err := strconv.ParseFloat(kind, 64)
		return floatText(number), err == nil
	}
	return "", false
}
