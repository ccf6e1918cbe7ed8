package scenario

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// rows returns one line for each object at a path of a JSON document: its fields, with two spaces between them. A path
// such as .servers[] leads to all elements of a list, and "." to the document. Without fields an object is shown as
// JSON.
func rows(document []byte, path string, fields []string) (lines []string, err error) {
	var root any
	if err := json.Unmarshal(document, &root); err != nil {
		return nil, fmt.Errorf("not a JSON document: %w: %s", err, document)
	}
	for _, object := range at([]any{root}, strings.Split(strings.TrimPrefix(path, "."), ".")) {
		var shown []string
		for _, field := range fields {
			var texts []string
			for _, value := range at([]any{object}, strings.Split(field, ".")) {
				texts = append(texts, show(value))
			}
			shown = append(shown, strings.Join(texts, ","))
		}
		if len(fields) == 0 {
			shown = []string{show(object)}
		}
		lines = append(lines, strings.Join(shown, "  "))
	}
	return lines, nil
}

// at returns the values at a path below some values.
func at(values []any, path []string) []any {
	for _, key := range path {
		key, all := strings.CutSuffix(key, "[]")
		var next []any
		for _, v := range values {
			if object, is := v.(map[string]any); is && key != "" {
				v = object[key]
			}
			if list, is := v.([]any); is && all {
				next = append(next, list...)
			} else if elements, is := v.(map[string]any); is && all {
				for _, key := range slices.Sorted(maps.Keys(elements)) {
					next = append(next, elements[key])
				}
			} else if !all {
				next = append(next, v)
			}
		}
		values = next
	}
	return values
}

// show returns a value as text: strings that are not empty without quotes, others as JSON.
func show(value any) string {
	if text, is := value.(string); is && text != "" {
		return text
	}
	text, err := json.Marshal(value)
	if err != nil {
		return err.Error()
	}
	return string(text)
}

// words splits a command into words at spaces. Quotes of both kinds join words.
func words(command string) (list []string, err error) {
	var word strings.Builder
	quote, inside := rune(0), false
	for _, r := range command {
		switch {
		case quote != 0 && r == quote:
			quote = 0
		case quote == 0 && (r == '"' || r == '\''):
			quote, inside = r, true
		case quote == 0 && r == ' ':
			if inside {
				list = append(list, word.String())
			}
			word.Reset()
			inside = false
		default:
			word.WriteRune(r)
			inside = true
		}
	}
	if quote != 0 {
		return nil, fmt.Errorf("a quote is not closed: %s", command)
	}
	if inside {
		list = append(list, word.String())
	}
	return list, nil
}
