package record

import "testing"

// TestMembersAreLeftOut checks that withoutMembers leaves out members of the record itself only, and returns other
// texts as they are.
func TestMembersAreLeftOut(t *testing.T) {
	names := map[string]bool{"a": true, "b": true}
	for text, want := range map[string]string{
		`{"v":3,"a":1,"c":2}`: `{"v":3,"c":2}`,
		`{"a":1,"c":2}`:       `{"c":2}`,
		`{"a":1,"b":2}`:       `{}`,
		`{"v":3,"c":{"a":1},"b":[{"x":[1,"]"]},2]}`:    `{"v":3,"c":{"a":1}}`,
		`{"v":3,"a":"\"}{,\\","c":"\\\"a\":1,","b":0}`: `{"v":3,"c":"\\\"a\":1,"}`,
		`{"v":3}`:        `{"v":3}`,
		`{}`:             `{}`,
		`{"v":3,"a":1`:   `{"v":3,"a":1`,
		`{"v":3,"a`:      `{"v":3,"a`,
		`{"v":3,"a":`:    `{"v":3,"a":`,
		`{"v":3,"a":"x`:  `{"v":3,"a":"x`,
		`{"v":3,"c":1}}`: `{"v":3,"c":1}}`,
		`{"v":3,}`:       `{"v":3,}`,
		`{"a":1,}`:       `{"a":1,}`,
		`["a"]`:          `["a"]`,
		``:               ``,
	} {
		if got := string(withoutMembers([]byte(text), names)); got != want {
			t.Errorf("%s: %s, want %s", text, got, want)
		}
	}
}
