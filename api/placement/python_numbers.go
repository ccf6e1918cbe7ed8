package placement

import (
	"encoding/json"
	"fmt"
	"math"
	"strconv"
	"strings"
	"unicode"
)

// maxDigits is the maximum number of digits in an integer. It is Python's limit.
const maxDigits = 4300

// wholeNumber parses an integer of a query or a header as Python's int does, which the original uses: with surrounding
// blanks, a sign, digits of any script, and single underscores between digits. An integer that does not fit into an int
// becomes the nearest int.
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
	n, _ = strconv.Atoi(plain.String()) // it returns the nearest int for one out of range
	return n, true
}

// digit returns the value of a decimal digit of any script; -1 for another character. The tables of package unicode
// contain the digits in runs of ten that begin with zero.
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

// asPythonNumbers returns a document with its numbers as Python reads them: a number with a point or an exponent is a
// float and may be rounded to zero. A float that is too large and an integer with too many digits are errors.
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

// clip shortens a text for an error message.
func clip(text string) string {
	if len(text) > 40 {
		return text[:40] + "…"
	}
	return text
}

// normalizeIntegers returns a document in a form that Go's decoder accepts. Numbers such as 4.0 and 1e3, which are
// integers in JSON schema, become integers. One that does not fit into an int becomes the nearest int, which the later
// checks of generations and amounts refuse as well. Allocation ratios remain. Mappings are removed: they are not used,
// and the schema allows some that are not valid, as the original's does.
func normalizeIntegers(name string, value any) any {
	switch v := value.(type) {
	case map[string]any:
		for name, member := range v {
			v[name] = normalizeIntegers(name, member)
			if name == "mappings" {
				delete(v, name)
			}
		}
	case []any:
		for i, item := range v {
			v[i] = normalizeIntegers("", item)
		}
	case json.Number:
		if name == "allocation_ratio" {
			return v
		}
		text := v.String()
		if strings.ContainsAny(text, ".eE") {
			f, err := v.Float64()
			if err != nil || f != math.Trunc(f) {
				return v // not an integer: the schema allows it only where it is not used
			}
			text = strconv.FormatFloat(f, 'f', 0, 64)
		}
		n, _ := strconv.Atoi(text)
		return json.Number(strconv.Itoa(n))
	}
	return value
}
