package edge

import (
	"net/http"
	"regexp"
	"strconv"
	"strings"
)

// JSON is the media type of all APIs.
const JSON = "application/json"

const token = "[!#$%&'*+.^_`|~0-9A-Za-z-]+"

// The grammar of the Accept header in RFC 7231, section 5.3.2.
var (
	acceptItems = regexp.MustCompile(`(?:[^,"]|"(?:[^"\\]|\\.)*"?)+`)
	acceptRange = regexp.MustCompile(`^(` + token + `)/(` + token + `)((?:[ \t]*;[ \t]*` + token +
		`(?:=(?:` + token + `|"(?:[^"\\]|\\.)*"))?)*)$`)
	acceptParam = regexp.MustCompile(`;[ \t]*(` + token + `)(?:=(` + token + `|"(?:[^"\\]|\\.)*"))?`)
	acceptValue = regexp.MustCompile(`^(?:0(?:\.[0-9]{0,3})?|1(?:\.0{0,3})?)$`)
)

// acceptsJSON reports whether a client accepts JSON. The most specific range that covers JSON decides; of several, the
// first. Without the header, or if it is malformed, any type is accepted. An empty list accepts nothing.
func acceptsJSON(h http.Header) bool {
	header := strings.Join(h.Values("Accept"), ", ")
	switch header {
	case "", "*/*", JSON: // the usual values
		return true
	}
	best, quality := 0, 0.0
	for _, item := range acceptItems.FindAllString(header, -1) {
		if item = strings.Trim(item, " \t"); item == "" {
			continue
		}
		specific, q, ok := acceptItem(item)
		if !ok {
			return true
		}
		if specific > best {
			best, quality = specific, q
		}
	}
	return quality > 0
}

// acceptItem parses one media range. It returns how specifically the range matches JSON (0: not at all) and its quality
// value.
func acceptItem(item string) (specific int, quality float64, ok bool) {
	m := acceptRange.FindStringSubmatch(item)
	if m == nil {
		return 0, 0, false
	}
	quality = 1
	narrowed := false
	for _, p := range acceptParam.FindAllStringSubmatch(m[3], -1) {
		if strings.EqualFold(p[1], "q") {
			var err error
			if quality, err = strconv.ParseFloat(p[2], 64); err != nil || !acceptValue.MatchString(p[2]) {
				return 0, 0, false
			}
			break // the parameters after q belong to Accept, not to the range
		}
		if p[2] == "" {
			return 0, 0, false
		}
		narrowed = true
	}
	switch major, minor := strings.ToLower(m[1]), strings.ToLower(m[2]); {
	case major+"/"+minor == JSON && !narrowed:
		specific = 3
	case major == "application" && minor == "*":
		specific = 2
	case major == "*" && minor == "*":
		specific = 1
	}
	return specific, quality, true
}
