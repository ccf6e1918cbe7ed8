package policy

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
)

// textOf returns a value as Python's str() prints it, because rules compare these texts: None, True, 1, 1.0, ['a'].
func textOf(value any) (string, error) {
	if text, ok := value.(string); ok {
		return text, nil
	}
	return reprOf(value)
}

// reprOf returns a value as Python's repr() prints it, with the keys of a mapping sorted.
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
		return quote(v), nil
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
			parts = append(parts, quote(key)+": "+text)
		}
		return "{" + strings.Join(parts, ", ") + "}", nil
	}
	return "", fmt.Errorf("a value of type %T cannot be compared", value)
}

// floatText returns a number as Python prints it: at least one digit after the point, and an exponent from 1e16 on and
// below 1e-4.
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

// quote returns a text as Python quotes it in a list: with " if it contains ' and no ", else with '.
func quote(text string) string {
	mark := "'"
	if strings.Contains(text, "'") && !strings.Contains(text, `"`) {
		mark = `"`
	}
	return mark + strings.NewReplacer(`\`, `\\`, mark, `\`+mark, "\n", `\n`, "\r", `\r`, "\t", `\t`).
		Replace(text) +
		mark
}

// isTrue reports whether Python treats a value as true in an `if`.
func isTrue(value any) bool {
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
