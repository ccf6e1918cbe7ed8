package policy

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
)

// format is the right side of a check: text with %(key)s in it, each of which stands for a value of the target.
type format struct {
	text   string
	pieces []piece
}

type piece struct {
	text  string // literal text, or a key
	isKey bool
}

// parseFormat reads Python's % notation as far as rules use it: %(key)s and %%. All else is refused, since
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
			return format{}, fmt.Errorf("%q has a %% that begins no %%(key)s; write %%%% for the sign itself", text)
		}
		f.pieces, rest = append(f.pieces, piece{text: key, isKey: true}), tail
	}
	return f, nil
}

// cutKey takes "(key)s" from the front of text. A key may hold pairs of parentheses.
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

// fill puts the target's values in; found is false when the target lacks one of them.
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

// textOf is a value as Python's str() prints it, which is how rules compare values: None, True, 1, 1.0, ['a'].
func textOf(value any) (string, error) {
	if text, ok := value.(string); ok {
		return text, nil
	}
	return reprOf(value)
}

// reprOf is Python's repr(). Keys of a mapping are sorted, for Go knows no other order.
func reprOf(value any) (string, error) {
	switch v := value.(type) {
	case nil:
		return "None", nil
	case bool:
		if v {
			return "True", nil
		}
		return "False", nil
	case int:
		return strconv.Itoa(v), nil
	case int64:
		return strconv.FormatInt(v, 10), nil
	case float64:
		return floatText(v), nil
	case string:
		return quoted(v), nil
	case []string:
		list := make([]any, len(v))
		for i, text := range v {
			list[i] = text
		}
		return reprOf(list)
	case []any:
		parts := make([]string, len(v))
		for i, element := range v {
			var err error
			if parts[i], err = reprOf(element); err != nil {
				return "", err
			}
		}
		return "[" + strings.Join(parts, ", ") + "]", nil
	case map[string]any:
		var parts []string
		for _, key := range slices.Sorted(maps.Keys(v)) {
			text, err := reprOf(v[key])
			if err != nil {
				return "", err
			}
			parts = append(parts, quoted(key)+": "+text)
		}
		return "{" + strings.Join(parts, ", ") + "}", nil
	}
	return "", fmt.Errorf("a value of type %T cannot be compared", value)
}

// floatText is a number as Python prints it: at least one digit behind the point, an exponent from 1e16 on and below
// 1e-4.
func floatText(v float64) string {
	switch size := math.Abs(v); {
	case math.IsNaN(v):
		return "nan"
	case math.IsInf(v, 1):
		return "inf"
	case math.IsInf(v, -1):
		return "-inf"
	case size != 0 && (size >= 1e16 || size < 1e-4):
		return strconv.FormatFloat(v, 'e', -1, 64)
	}
	text := strconv.FormatFloat(v, 'f', -1, 64)
	if !strings.Contains(text, ".") {
		text += ".0"
	}
	return text
}

// quoted is a text as Python quotes it inside of a list: with ' unless only ' is in it.
func quoted(text string) string {
	mark := "'"
	if strings.Contains(text, "'") && !strings.Contains(text, `"`) {
		mark = `"`
	}
	return mark + strings.NewReplacer(`\`, `\\`, mark, `\`+mark, "\n", `\n`, "\r", `\r`, "\t", `\t`).
		Replace(text) +
		mark
}

// truth is what Python takes a value for in an `if`.
func truth(value any) bool {
	switch v := value.(type) {
	case []string:
		return len(v) > 0
	case []any:
		return len(v) > 0
	case map[string]any:
		return len(v) > 0
	}
	return value != nil && value != false && value != "" && value != 0 && value != int64(0) && value != 0.0
}
