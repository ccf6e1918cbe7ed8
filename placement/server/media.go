package server

import (
	"net/http"
	"regexp"
	"strconv"
	"strings"
)

// jsonType is the one media type of the API.
const jsonType = "application/json"

// requireJSON refuses a body of another content type than JSON. As in the original, the type is what stands before the first
// semicolon, letter by letter.
func (c *call) requireJSON() error {
	given := c.r.Header.Get("Content-Type")
	media, _, _ := strings.Cut(given, ";")
	if media == jsonType {
		return nil
	}
	if media == "" {
		given = "None"
	}
	return newStatusError(http.StatusUnsupportedMediaType, "The media type %s is not supported, use %s", given, jsonType)
}

const token = "[!#$%&'*+.^_`|~0-9A-Za-z-]+"

// What RFC 7231, section 5.3.2 calls an Accept header.
var (
	acceptItems = regexp.MustCompile(`(?:[^,"]|"(?:[^"\\]|\\.)*"?)+`)
	acceptRange = regexp.MustCompile(`^(` + token + `)/(` + token + `)((?:[ \t]*;[ \t]*` + token + `(?:=(?:` + token + `|"(?:[^"\\]|\\.)*"))?)*)$`)
	acceptParam = regexp.MustCompile(`;[ \t]*(` + token + `)(?:=(` + token + `|"(?:[^"\\]|\\.)*"))?`)
	acceptValue = regexp.MustCompile(`^(?:0(?:\.[0-9]{0,3})?|1(?:\.0{0,3})?)$`)
)

// accepts says whether a client takes JSON. The most specific range that covers it decides, the first of several. Without the header, and
// when it is malformed, the client takes anything; from a list of nothing it takes nothing.
func accepts(h http.Header) bool {
	header := strings.Join(h.Values("Accept"), ", ")
	switch header {
	case "", "*/*", jsonType: // as nearly all say it
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

// acceptItem reads one media range: how closely it names JSON (0: not at all) and how much it is wanted.
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
			break // what follows extends Accept, not the range
		}
		if p[2] == "" {
			return 0, 0, false
		}
		narrowed = true
	}
	switch major, minor := strings.ToLower(m[1]), strings.ToLower(m[2]); {
	case major+"/"+minor == jsonType && !narrowed:
		specific = 3
	case major == "application" && minor == "*":
		specific = 2
	case major == "*" && minor == "*":
		specific = 1
	}
	return specific, quality, true
}
