package server

import (
	"encoding/json"
	"maps"
	"slices"
	"strconv"

	api "github.com/openberth/berth/api/placement"
	"github.com/openberth/berth/placement/index"
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

// summary appends the summary of one provider as a member of an object, in the form of a microversion.
func (t *jsonBuffer) summary(row index.Row, version api.Version, asked resource.Amounts) {
	t.quoted(string(row.ID))
	t.put(`:{"resources":{`)
	n := 0
	for _, class := range slices.Sorted(maps.Keys(row.Inventories)) {
		if _, wanted := asked[class]; !wanted && version < sinceSummaryAll {
			continue
		}
		t.comma(n)
		n++
		t.quoted(string(class))
		t.put(`:{"capacity":`)
		t.number(row.Inventories[class].Capacity())
		t.put(`,"used":`)
		t.number(row.Used[class])
		t.put(`}`)
	}
	t.put(`}`)
	if version >= sinceSummaryTraits {
		t.put(`,"traits":[`)
		for i, trait := range row.Traits {
			t.comma(i)
			t.quoted(string(trait))
		}
		t.put(`]`)
	}
	if version >= sinceNestedCandidates {
		t.put(`,"parent_provider_uuid":`)
		if row.Parent == "" {
			t.put(`null`)
		} else {
			t.quoted(string(row.Parent))
		}
		t.put(`,"root_provider_uuid":`)
		t.quoted(string(row.Root))
	}
	t.put(`}`)
}

// encodeSummaries returns the summaries of a tree in the form of the latest microversion.
func encodeSummaries(snapshot *index.Snapshot, tree *index.Tree) []byte {
	var out jsonBuffer
	for i, row := range snapshot.Tree(tree.Root) {
		out.comma(i)
		out.summary(row, api.Latest, nil)
	}
	return slices.Clip(out)
}
