package edge

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/openberth/berth/fault"
)

// shopStyle is a style whose sentences name their parts.
func shopStyle(null bool) Style {
	return Style{MaxBody: 1 << 10, MaxWord: 6, Null: null, Decimals: null, True: []string{"true", "yes", "7"},
		False: []string{"false", "no"}, Code: "bad", NoObject: "no object %s", Invalid: "%[1]s.%[2]s: %[3]s",
		Unknown: "unknown %[2]s in %[3]s", Unsupported: "unsupported %[2]s: %[3]s", Missing: "no %s", Wrong: "%s is not %s",
		Length: "%[1]d is not from %[2]d to %[3]d", NotIn: "%s is not %s", Between: " or ", Text: "text",
		Whole: "%d to %d", NoFlag: "%s is not a flag"}
}

// goods are what TestObject decodes.
type goods struct {
	Name, Kind, Size string
	Count            int
	New              bool
	Parts            []string
}

// readGoods returns what an object has, or the text of the error.
func readGoods(o *Object) (goods, string) {
	g := goods{Name: "old", Kind: "old", Size: "old", Count: -1, New: true, Parts: []string{"old"}}
	o.Require("name")
	o.Text("name", &g.Name, 4)
	o.Word("kind", &g.Kind, "a", "b")
	o.Scalar("size", &g.Size, "a size")
	o.Number("count", &g.Count, 1, 9)
	o.Flag("new", &g.New)
	o.Decode("parts", &g.Parts, "parts")
	o.Ignore("ignored")
	o.Reasons = map[string]string{"price": "it is free"}
	if err := o.Finish(); err != nil {
		if !fault.Is(err, fault.Invalid) || fault.CodeOf(err) != "bad" {
			return g, "kind or code: " + err.Error()
		}
		return g, fault.TextOf(err)
	}
	return g, ""
}

func TestObject(t *testing.T) {
	for _, c := range []struct {
		body, want string // want: the error, or of valid goods name kind size count new parts
		null       bool
	}{
		{body: `"name": "n"`, want: "n old old -1 true [old]"},
		{body: `"name": "n", "kind": "b", "size": 5, "count": "3", "new": "No", "parts": ["p"]`, want: "n b 5 3 false [p]"},
		{body: `"name": "n", "kind": null, "size": null, "count": null, "new": null`, want: "n old old -1 true [old]"},
		{body: `"name": "n", "kind": null, "count": null`, null: true, want: "n  old 0 true [old]"},
		{body: `"name": "n", "count": 3.0`, null: true, want: "n old old 3 true [old]"},
		{body: `"name": "n", "new": 7.0`, null: true, want: "n old old -1 true [old]"},
		{body: `"name": "n", "ignored": [], "price": null`, want: "n old old -1 true [old]"},
		{body: ``, want: "goods.name: no text"},
		{body: `"name": null`, want: "goods.name: null is not text"},
		{body: `"name": ""`, want: "goods.name: 0 is not from 1 to 4"},
		{body: `"name": "12345"`, want: "goods.name: 5 is not from 1 to 4"},
		{body: `"name": 5, "count": 0`, want: "goods.name: 5 is not text"},
		{body: `"name": "n", "kind": "c"`, want: "goods.kind: c is not a or b"},
		{body: `"name": "n", "kind": ""`, want: "goods.kind:  is not a or b"},
		{body: `"name": "n", "kind": "", "count": 1`, null: true, want: "n  old 1 true [old]"},
		{body: `"name": "n", "size": {}`, want: "goods.size: {} is not a size"},
		{body: `"name": "n", "count": 10`, want: "goods.count: 10 is not 1 to 9"},
		{body: `"name": "n", "count": 3.0`, want: "goods.count: 3.0 is not 1 to 9"},
		{body: `"name": "n", "count": "3.0"`, null: true, want: "goods.count: 3.0 is not 1 to 9"},
		{body: `"name": "n", "new": 1`, want: "goods.new: 1 is not a flag"},
		{body: `"name": "n", "new": null`, null: true, want: "goods.new: null is not a flag"},
		{body: `"name": "n", "parts": "` + strings.Repeat("p", 70) + `"`, want: `goods.parts: "` +
			strings.Repeat("p", 59) + "… is not parts"},
		{body: `"name": "n", "price": 3, "x%d": 1`, want: "unsupported price: it is free"},
		{body: `"name": "n", "other%d": 3, "price": 3`, want: "unknown other%d in POST"},
		{body: `"name": "n", "ignored": 1`, want: "unknown ignored in POST"},
	} {
		a := shop(t.Output())
		a.Style = shopStyle(c.null)
		a.Routes = []Route[*shopCall]{{Path: "/goods", Methods: map[string]Method[*shopCall]{"POST": {
			Handle: func(call *shopCall) error {
				o, others, err := call.Object("goods")
				if err != nil || len(others) != 1 {
					t.Errorf("%v %v", others, err)
					return err
				}
				again := o.Copy()
				g, text := readGoods(o)
				if _, repeated := readGoods(again); repeated != text {
					t.Errorf("%s: %q for the copy", text, repeated)
				}
				return call.WriteJSON(http.StatusOK, []any{text, g})
			}}}}}
		rec := ask(New(a), "POST", "/goods", strings.NewReader(`{"other": 1, "goods": {`+c.body+`}}`))
		var answer []json.RawMessage
		var text string
		var g goods
		if err := json.Unmarshal(rec.Body.Bytes(), &answer); err != nil || json.Unmarshal(answer[0], &text) != nil ||
			json.Unmarshal(answer[1], &g) != nil {
			t.Fatalf("%s: %s", c.body, rec.Body)
		}
		if text == "" {
			text = fmt.Sprint(g.Name, " ", g.Kind, " ", g.Size, " ", g.Count, " ", g.New, " ", g.Parts)
		}
		if text != c.want {
			t.Errorf("%s: %q, want %q", c.body, text, c.want)
		}
	}
}
