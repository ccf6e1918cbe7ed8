// Package difference compares two answers of Placements to one read of one database: the original's and Berth's. It
// returns what differs, without what is known to differ.
package difference

import (
	"fmt"
	"regexp"
	"strings"
)

// Known is a difference that is expected and not reported.
type Known struct {
	ID       string // as counted in reports
	Original string // what the original does
	Berth    string // what Berth does
	target   *regexp.Regexp
}

// The known differences that Compare returns.
const (
	errorText     = "error text"
	errorFormat   = "error format"
	internalError = "internal error"
	wrongAmounts  = "amounts"
	lostCandidate = "shared candidates"
	limited       = "limit"
	providerForm  = "UUID forms"
	pathForm      = "bytes of a path"
	nul           = "NUL"
	newline       = "newline"
	newest        = "max_version"
	ownPaths      = "own paths"
)

// Table returns all known differences in the order of docs/moving-placement-to-berth.md.
func Table() []Known {
	form := regexp.MustCompile
	return []Known{
		{ID: "order", Original: "the order of lists is that of its tables or hash tables",
			Berth: "another order: lists are compared as sets"},
		{ID: "numbers", Original: "writes a whole ratio as 1.0", Berth: "may write 1: numbers are compared by value"},
		{ID: "headers", Original: "omits `vary` from some errors, `openstack-request-id` always",
			Berth: "sends both, and `openstack-berth-reason`; compared are status, media type, microversion, " +
				"`cache-control`, and whether there is a `last-modified`"},
		{ID: errorText, Original: "its own sentences in `errors[].detail`", Berth: "other sentences; statuses, titles and " +
			"codes are compared"},
		{ID: errorFormat, Original: "errors as HTML or text, by the header `accept`", Berth: "errors are always JSON"},
		{ID: internalError, Original: "answers 500, such as to `GET /usages` on PostgreSQL from microversion 1.38",
			Berth: "answers"},
		{ID: wrongAmounts, Original: "adds amounts to the wrong candidate if the unsuffixed group and another one request " +
			"one class, and omits candidates that then seem too large", Berth: "the amounts are those of the request"},
		{ID: lostCandidate, Original: "loses candidates whose unsuffixed group only sharing providers serve, if there " +
			"are other groups", Berth: "returns them"},
		{ID: limited, Original: "with a limit, the first candidates that it finds", Berth: "as many, possibly others; " +
			"their trees are asked again one by one, without the limit"},
		{ID: providerForm, Original: "older releases accept UUIDs without hyphens in `uuid` and `in_tree`",
			Berth: "as newer releases: 400", target: form(`[?&](uuid|in_tree)=(?i:urn:|uuid:|%7B|[0-9a-f]{32}(&|$))`)},
		{ID: pathForm, Original: "reads the bytes of a path as Latin-1", Berth: "a path that is not UTF-8 is refused: 400",
			target: form(`^[^?]*%(?i:[89A-F][0-9A-F])`)},
		{ID: nul, Original: "accepts NUL in texts", Berth: "refuses it: 400", target: form(`%00`)},
		{ID: newline, Original: "accepts a newline at the end of a name or a number", Berth: "refuses it: 400",
			target: form(`%0[Aa]`)},
		{ID: newest, Original: "an older release has an older `max_version` in the version document", Berth: "1.39"},
		{ID: ownPaths, Original: "answers 404", Berth: "has `/berth/v1/…` and `/metrics`",
			target: form(`^/(berth/|metrics)`)},
	}
}

// Markdown returns the table of the known differences for documents.
func Markdown() string {
	var b strings.Builder
	b.WriteString("| Known | The original | Berth |\n|---|---|---|\n")
	for _, k := range Table() {
		fmt.Fprintf(&b, "| %s | %s | %s |\n", k.ID, k.Original, k.Berth)
	}
	return b.String()
}
