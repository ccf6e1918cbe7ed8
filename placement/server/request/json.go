package request

import (
	"encoding/json"
	"strconv"

	"github.com/openberth/berth/resource"
)

// Buffer is a buffer to which JSON is appended.
type Buffer []byte

// Put appends a text as it is.
func (t *Buffer) Put(more string) { *t = append(*t, more...) }

// Quoted appends a JSON string. Nearly all texts are UUIDs and upper-case names, which need no escapes.
func (t *Buffer) Quoted(text string) {
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

// Number appends a number.
func (t *Buffer) Number(n int) { *t = strconv.AppendInt(*t, int64(n), 10) }

// Comma appends a comma, except before item 0.
func (t *Buffer) Comma(i int) {
	if i > 0 {
		*t = append(*t, ',')
	}
}

// Amounts appends an object of amounts by resource class.
func (t *Buffer) Amounts(amounts resource.Amounts) {
	t.Put(`{`)
	for i, class := range amounts.Sorted() {
		t.Comma(i)
		t.Quoted(string(class))
		t.Put(`:`)
		t.Number(amounts[class])
	}
	t.Put(`}`)
}
