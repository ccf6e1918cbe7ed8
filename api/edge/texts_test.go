package edge

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/openberth/berth/fault"
)

// checkBody refuses what no database can store, and names its place.
func TestCheckBody(t *testing.T) {
	const half = "it contains half of a surrogate pair"
	for body, want := range map[string]string{
		`{"server": {"name": "é 名 🔥 \ud83d\udd25 \\u0000 \ufffd", "n": [1, null, true]}}`: "",
		`not JSON, and no text`:                                      "",
		`{"flavor": {"description": "x\u0000"}}`:                     "flavor.description: it contains the character U+0000",
		`{"a": [1, {"b": "c"}, {"d": ["e", "\uD83D"]}]}`:             "a[2].d[1]: " + half,
		`{"a": {"b": "\udc00\ud800"}}`:                               "a.b: " + half,
		`{"a": "\ufffe"}`:                                            "a: it contains the character U+FFFE",
		"{\"a\": {}, \"b\": \"\uffff\"}":                             "b: it contains the character U+FFFF",
		`{"a": {"b": 1, "c\u0000d": "e"}}`:                           "a.a name: it contains the character U+0000",
		`["x", "\u0000"]`:                                            "[1]: it contains the character U+0000",
		"{\"a\": \"\xff\"}":                                          "a: it contains bytes that are not UTF-8",
		`"\u0000"`:                                                   "the body: it contains the character U+0000",
		`{"a": "\\\u0000"}`:                                          "a: it contains the character U+0000",
		`{"a": [[], [{}, "\u0000"]], "b": "\u0000"}`:                 "a[1][1]: it contains the character U+0000",
		`{"extra_specs": {"hw:x": "", "hw:y": "` + "\ufffe" + `b"}}`: "extra_specs.hw:y: it contains the character U+FFFE",
		`{"resources": {"$ID": {}}, "project_id": "p\u0000"}`:        "project_id: it contains the character U+0000",
		`{"metadata": {}, "networks": [{"tag": "\uDBFFabcd"}]}`:      "networks[0].tag: " + half,
	} {
		err := checkBody([]byte(body))
		if want == "" && err != nil || want != "" && (!fault.Is(err, fault.Invalid) ||
			!strings.Contains(fault.TextOf(err), "Invalid text in "+want+"; remove it")) {
			t.Errorf("%s: %v, want %q", body, err, want)
		}
	}
}

// FuzzCheckBody: a JSON text that is accepted has only texts that are accepted.
func FuzzCheckBody(f *testing.F) {
	for _, seed := range []string{`{"a": "\u0000"}`, `["\ud800\udc00", "\ufffe"]`, `{"\u0000": 1}`, `"\\u0000"`} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		var value any
		if err := checkBody(data); err != nil || json.Unmarshal(data, &value) != nil {
			return
		}
		var check func(any)
		check = func(value any) {
			switch v := value.(type) {
			case string:
				if badCharacter(v) != "" {
					t.Fatalf("%q has the text %q", data, v)
				}
			case []any:
				for _, inner := range v {
					check(inner)
				}
			case map[string]any:
				for key, inner := range v {
					check(key)
					check(inner)
				}
			}
		}
		check(value)
	})
}
