package edge

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/url"
	"strconv"
	"strings"
	"unicode/utf16"
	"unicode/utf8"

	"github.com/openberth/berth/fault"
)

// No service accepts a text that a database may be unable to store or to compare, or that Go would silently change:
// one with NUL, half of a surrogate pair, or the noncharacters U+FFFE and U+FFFF, or one that is not UTF-8. All texts
// of a request are checked here, so the answer is 400 on every database.

// checkTexts checks the path and the query of a request.
func (c *Call) checkTexts() error {
	if what := badCharacter(c.R.URL.Path); what != "" {
		return badText("the path", what)
	}
	if !strings.Contains(c.R.URL.RawQuery, "%") && badCharacter(c.R.URL.RawQuery) == "" {
		return nil
	}
	for part := range strings.SplitSeq(c.R.URL.RawQuery, "&") {
		key, value, _ := strings.Cut(part, "=")
		name, err := url.QueryUnescape(key)
		if err != nil {
			continue // the API refuses it, or ignores it as the original does
		}
		if what := badCharacter(name); what != "" {
			return badText("the name of a query parameter", what)
		}
		if text, err := url.QueryUnescape(value); err == nil {
			if what := badCharacter(text); what != "" {
				return badText("the query parameter "+name, what)
			}
		}
	}
	return nil
}

func badText(place, what string) error {
	return fault.New(fault.Invalid, "Invalid text in %s: it contains %s; remove it", place, what)
}

// badCharacter returns what a text contains that no service accepts, or an empty string.
func badCharacter(text string) string {
	for i, r := range text {
		if r == utf8.RuneError {
			if _, size := utf8.DecodeRuneInString(text[i:]); size == 1 {
				return "bytes that are not UTF-8"
			}
		}
		if unacceptable(r) {
			return fmt.Sprintf("the character U+%04X", r)
		}
	}
	return ""
}

func unacceptable(r rune) bool { return r == 0 || r == 0xFFFE || r == 0xFFFF }

// checkBody checks the texts of a JSON body. Its error has the place of the first text that is not accepted.
func checkBody(data []byte) error {
	at, what := badInJSON(data)
	if what == "" {
		return nil
	}
	return badText(placeOf(data, at), what)
}

// badInJSON returns the position of the first character in a JSON text that no service accepts, and what it is.
func badInJSON(data []byte) (at int, what string) {
	for at < len(data) {
		switch b := data[at]; {
		case b == '\\':
			r, size := escapedRune(data[at:])
			switch {
			case utf16.IsSurrogate(r):
				return at, "half of a surrogate pair"
			case unacceptable(r):
				return at, fmt.Sprintf("the character U+%04X", r)
			}
			at += size
		case b < utf8.RuneSelf:
			at++
		default:
			r, size := utf8.DecodeRune(data[at:])
			switch {
			case r == utf8.RuneError && size == 1:
				return at, "bytes that are not UTF-8"
			case unacceptable(r):
				return at, fmt.Sprintf("the character U+%04X", r)
			}
			at += size
		}
	}
	return 0, ""
}

// escapedRune returns the character of the escape at the beginning of a JSON text, and the length of the escape. An
// escape other than \u is a space, because it is never refused. Half of a surrogate pair is returned as it is.
func escapedRune(data []byte) (rune, int) {
	first, ok := hexEscape(data)
	if !ok {
		return ' ', 2
	}
	if utf16.IsSurrogate(first) {
		if second, ok := hexEscape(data[6:]); ok {
			if r := utf16.DecodeRune(first, second); r != utf8.RuneError {
				return r, 12
			}
		}
	}
	return first, 6
}

// hexEscape returns the number of an escape \uXXXX.
func hexEscape(data []byte) (rune, bool) {
	if len(data) < 6 || data[0] != '\\' || data[1] != 'u' {
		return 0, false
	}
	n, err := strconv.ParseUint(string(data[2:6]), 16, 16)
	return rune(n), err == nil
}

// placeOf returns the place of a position in a JSON text, such as server.metadata.key or allocations[2].
func placeOf(data []byte, at int) string {
	type level struct {
		key   string // of the member that is being read; in a list, the position
		index int    // -1: an object
		named bool   // the key is read, its value is not
	}
	var stack []level
	d := json.NewDecoder(bytes.NewReader(data))
	for {
		token, err := d.Token()
		if err != nil {
			return "the body"
		}
		past := int(d.InputOffset()) > at
		if n := len(stack) - 1; n >= 0 {
			if key, is := token.(string); is && stack[n].index < 0 && !stack[n].named {
				if past {
					key = "a name" // which itself is not accepted
				}
				stack[n].key, stack[n].named = key, true
				if !past {
					continue
				}
			} else if stack[n].named = false; stack[n].index >= 0 && token != json.Delim(']') {
				stack[n].index++
			}
		}
		if past {
			break
		}
		switch token {
		case json.Delim('{'):
			stack = append(stack, level{index: -1})
		case json.Delim('['):
			stack = append(stack, level{})
		case json.Delim('}'), json.Delim(']'):
			stack = stack[:len(stack)-1]
		}
	}
	var place strings.Builder
	for _, l := range stack {
		switch {
		case l.index >= 0:
			fmt.Fprintf(&place, "[%d]", l.index-1)
		case place.Len() > 0:
			place.WriteString("." + l.key)
		default:
			place.WriteString(l.key)
		}
	}
	if place.Len() == 0 {
		return "the body"
	}
	return place.String()
}
