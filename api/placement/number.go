package placement

import (
	"encoding/json"
	"fmt"
	"math"
	"strconv"
	"strings"
	"unicode"
)

// maxDigits is how many digits a whole number may have: Python reads no longer ones either.
const maxDigits = 4300

// wholeNumber reads a whole number of a query or a header as the original does, which leaves that to Python: blanks around it, a sign,
// digits of any script, and single underscores between them. What no int holds is the nearest that one does.
func wholeNumber(text string) (n int, ok bool) {
	text = strings.TrimSpace(text)
	digits := strings.TrimPrefix(text, "+")
	if len(digits) == len(text) {
		digits = strings.TrimPrefix(text, "-")
	}
	var plain strings.Builder
	if strings.HasPrefix(text, "-") {
		plain.WriteByte('-')
	}
	underscore := true // none may come first
	for _, r := range digits {
		if r == '_' && !underscore {
			underscore = true
			continue
		}
		d := digit(r)
		if d < 0 {
			return 0, false
		}
		plain.WriteByte(byte('0' + d))
		underscore = false
	}
	if underscore || plain.Len() > maxDigits {
		return 0, false
	}
	n, _ = strconv.Atoi(plain.String()) // it gives the nearest when it is out of range
	return n, true
}

// digit is the value of a decimal digit of any script; -1: it is none. The tables have them in runs of ten that begin with nought.
func digit(r rune) int {
	if '0' <= r && r <= '9' {
		return int(r - '0')
	}
	for _, run := range unicode.Nd.R16 {
		if uint16(r) >= run.Lo && uint16(r) <= run.Hi && r <= math.MaxUint16 {
			return int(uint16(r)-run.Lo) % 10
		}
	}
	for _, run := range unicode.Nd.R32 {
		if uint32(r) >= run.Lo && uint32(r) <= run.Hi {
			return int(uint32(r)-run.Lo) % 10
		}
	}
	return -1
}

// asPythonNumbers writes the numbers of a document as Python reads them: one with a point or an exponent is a float, which may be nought or
// infinite then. An infinite number, and a whole one that is too long, are errors: no body has a place for them.
func asPythonNumbers(value any) (any, error) {
	var err error
	switch v := value.(type) {
	case map[string]any:
		for name, member := range v {
			if v[name], err = asPythonNumbers(member); err != nil {
				return nil, err
			}
		}
	case []any:
		for i, item := range v {
			if v[i], err = asPythonNumbers(item); err != nil {
				return nil, err
			}
		}
	case json.Number:
		text := v.String()
		if !strings.ContainsAny(text, ".eE") {
			if len(text) > maxDigits {
				return nil, fmt.Errorf("a number has more than %d digits", maxDigits)
			}
			return v, nil
		}
		f, err := strconv.ParseFloat(text, 64)
		if err != nil {
			return nil, fmt.Errorf("the number %s is too large", clip(text))
		}
		return json.Number(strconv.FormatFloat(f, 'g', -1, 64)), nil
	}
	return value, nil
}

// clip keeps a sentence readable.
func clip(text string) string {
	if len(text) > 40 {
		return text[:40] + "…"
	}
	return text
}

// integersOnly writes numbers such as 4.0 and 1e3, which JSON schema calls integers, as Go's decoder reads them. What no int holds is the nearest
// that one does, which is as wrong for a generation and as much too much for an amount. Ratios are no integers and stay. Mappings go: nobody
// reads them, and the schema lets some through of any shape, as the original's does.
func integersOnly(name string, value any) any {
	switch v := value.(type) {
	case map[string]any:
		for name, member := range v {
			v[name] = integersOnly(name, member)
			if name == "mappings" {
				delete(v, name)
			}
		}
	case []any:
		for i, item := range v {
			v[i] = integersOnly("", item)
		}
	case json.Number:
		if name == "allocation_ratio" {
			return v
		}
		text := v.String()
		if strings.ContainsAny(text, ".eE") {
			f, err := v.Float64()
			if err != nil || f != math.Trunc(f) {
				return v // no integer: the schema has it for something that nobody reads
			}
			text = strconv.FormatFloat(f, 'f', 0, 64)
		}
		n, _ := strconv.Atoi(text)
		return json.Number(strconv.Itoa(n))
	}
	return value
}
