package server

import (
	"encoding/json"
	"strconv"

	"github.com/openberth/berth/resource"
)

// jsonBuffer is a buffer to which JSON is appended.
type jsonBuffer []byte

func (t *jsonBuffer) put(more string) { *t = append(*t, more...) }

// quoted appends a JSON string. Nearly all texts are UUIDs and upper-case names, which need no escapes.
func (t *jsonBuffer) quoted(text string) {
	for i := range len(text) {
		if b := text[i]; b < ' ' || b > '~' || b == '"' || b == '\\' {
			data, err := json.Marshal(text)
			if err != nil {
				data = []byte(`""`) // does not occur: every string can be encoded
			}
			*t = append(*t, data...)
			return
		}
	}
	*t = append(append(append(*t, '"'), text...), '"')
}

func (t *jsonBuffer) number(n int) { *t = strconv.AppendInt(*t, int64(n), 10) }

// comma appends a comma, except before item 0.
func (t *jsonBuffer) comma(i int) {
	if i > 0 {
		*t = append(*t, ',')
	}
}

func (t *jsonBuffer) amounts(amounts resource.Amounts) {
	t.put(`{`)
	for i, class := range amounts.Sorted() {
		t.comma(i)
		t.quoted(string(class))
		t.put(`:`)
		t.number(amounts[class])
	}
	t.put(`}`)
}
