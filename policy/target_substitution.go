package policy

import (
	"fmt"
	"strings"
)

// format is the right side of a check: text in which each %(key)s is replaced by a value of the target.
type format struct {
	text   string
	pieces []piece
}

type piece struct {
	text  string // literal text, or a key
	isKey bool
}

// parseFormat parses the part of Python's % notation that rules use: %(key)s and %%. Anything else is an error, because
// oslo.policy accepts it when it loads the rule and then fails each request.
func parseFormat(text string) (format, error) {
	f := format{text: text}
	for rest := text; rest != ""; {
		plain, after, found := strings.Cut(rest, "%")
		if plain != "" {
			f.pieces = append(f.pieces, piece{text: plain})
		}
		if !found {
			break
		}
		if strings.HasPrefix(after, "%") {
			f.pieces, rest = append(f.pieces, piece{text: "%"}), after[1:]
			continue
		}
		key, tail, ok := cutKey(after)
		if !ok {
			return format{}, fmt.Errorf("%q has a %% that does not begin %%(key)s; write %%%% for the sign itself", text)
		}
		f.pieces, rest = append(f.pieces, piece{text: key, isKey: true}), tail
	}
	return f, nil
}

// cutKey splits "(key)s" off the front of text. A key may contain pairs of parentheses.
func cutKey(text string) (key, rest string, ok bool) {
	depth := 0
	for i, r := range text {
		switch r {
		case '(':
			depth++
		case ')':
			if depth--; depth == 0 {
				return text[1:i], strings.TrimPrefix(text[i+1:], "s"), strings.HasPrefix(text[i+1:], "s")
			}
		}
		if depth == 0 {
			break
		}
	}
	return "", "", false
}

// fill returns the text with the target's values; found is false if the target lacks one of them.
func (f format) fill(target map[string]any) (text string, found bool, err error) {
	if len(f.pieces) == 1 && !f.pieces[0].isKey {
		return f.pieces[0].text, true, nil
	}
	var out strings.Builder
	for _, p := range f.pieces {
		if !p.isKey {
			out.WriteString(p.text)
			continue
		}
		value, has := target[p.text]
		if !has {
			return "", false, nil
		}
		text, err := textOf(value)
		if err != nil {
			return "", false, fmt.Errorf("the target's %s: %w", p.text, err)
		}
		out.WriteString(text)
	}
	return out.String(), true, nil
}
