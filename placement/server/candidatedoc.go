package server

import (
	"encoding/json"
	"maps"
	"slices"
	"strconv"

	api "github.com/openberth/berth/api/placement"
	"github.com/openberth/berth/placement/candidate"
	"github.com/openberth/berth/placement/index"
	"github.com/openberth/berth/provider"
	"github.com/openberth/berth/resource"
)

// answerWriter writes the answer of GET /allocation_candidates piece by piece: it can be megabytes, and reflection over
// maps of maps would be most of the time that a question takes.
type answerWriter struct {
	version  api.Version
	snapshot *index.Snapshot
	ask      resource.Ask
	out      []byte

	ids      []provider.ID // scratch: the keys of the map that is being written
	classes  []resource.Class
	suffixes []string
}

// keys lists the keys of a map in order, in a slice that is used again.
func keys[K ~string, V any](scratch *[]K, m map[K]V) []K {
	*scratch = slices.AppendSeq((*scratch)[:0], maps.Keys(m))
	slices.Sort(*scratch)
	return *scratch
}

func (w *answerWriter) put(text string) { w.out = append(w.out, text...) }

// quoted writes a text as JSON. Nearly all are UUIDs and names of upper-case letters, which are written as they are.
func (w *answerWriter) quoted(text string) {
	for i := range len(text) {
		if b := text[i]; b < ' ' || b > '~' || b == '"' || b == '\\' {
			data, err := json.Marshal(text)
			if err != nil {
				data = []byte(`""`) // no text fails to be written
			}
			w.out = append(w.out, data...)
			return
		}
	}
	w.out = append(append(append(w.out, '"'), text...), '"')
}

func (w *answerWriter) number(n int) { w.out = strconv.AppendInt(w.out, int64(n), 10) }

// comma separates the items of a list or an object.
func (w *answerWriter) comma(i int) {
	if i > 0 {
		w.put(",")
	}
}

func (w *answerWriter) answer(list []candidate.Candidate) []byte {
	w.out = make([]byte, 0, 256+512*len(list)) // about what a host of two providers takes
	w.put(`{"allocation_requests":[`)
	for i, found := range list {
		w.comma(i)
		w.request(found)
	}
	w.put(`],"provider_summaries":{`)
	asked := w.ask.Total()
	for i, row := range involved(w.snapshot, list, w.version >= sinceNestedCandidates) {
		w.comma(i)
		w.summary(row, asked)
	}
	w.put(`}}`)
	return w.out
}

func (w *answerWriter) request(found candidate.Candidate) {
	byList := w.version < sinceAllocationOwner
	open, shut := `{"allocations":{`, `}`
	if byList {
		open, shut = `{"allocations":[`, `]`
	}
	w.put(open)
	for i, id := range keys(&w.ids, found.Allocation) {
		w.comma(i)
		if byList {
			w.put(`{"resource_provider":{"uuid":`)
			w.quoted(string(id))
			w.put(`},"resources":`)
		} else {
			w.quoted(string(id))
			w.put(`:{"resources":`)
		}
		w.amounts(found.Allocation[id])
		w.put(`}`)
	}
	w.put(shut)
	if w.version >= sinceMappings {
		w.mappings(found.Mappings)
	}
	w.put(`}`)
}

func (w *answerWriter) amounts(amounts resource.Amounts) {
	w.put(`{`)
	for i, class := range keys(&w.classes, amounts) {
		w.comma(i)
		w.quoted(string(class))
		w.put(`:`)
		w.number(amounts[class])
	}
	w.put(`}`)
}

func (w *answerWriter) mappings(mappings map[string][]provider.ID) {
	w.put(`,"mappings":{`)
	for i, suffix := range keys(&w.suffixes, mappings) {
		w.comma(i)
		w.quoted(suffix)
		w.put(`:[`)
		for j, id := range mappings[suffix] {
			w.comma(j)
			w.quoted(string(id))
		}
		w.put(`]`)
	}
	w.put(`}`)
}

func (w *answerWriter) summary(row index.Row, asked resource.Amounts) {
	w.quoted(string(row.ID))
	w.put(`:{"resources":{`)
	n := 0
	for _, class := range keys(&w.classes, row.Inventories) {
		if _, wanted := asked[class]; !wanted && w.version < sinceSummaryAll {
			continue
		}
		w.comma(n)
		n++
		w.quoted(string(class))
		w.put(`:{"capacity":`)
		w.number(row.Inventories[class].Capacity())
		w.put(`,"used":`)
		w.number(row.Used[class])
		w.put(`}`)
	}
	w.put(`}`)
	if w.version >= sinceSummaryTraits {
		w.put(`,"traits":[`)
		for i, t := range row.Traits {
			w.comma(i)
			w.quoted(string(t))
		}
		w.put(`]`)
	}
	if w.version >= sinceNestedCandidates {
		w.put(`,"parent_provider_uuid":`)
		if row.Parent == "" {
			w.put(`null`)
		} else {
			w.quoted(string(row.Parent))
		}
		w.put(`,"root_provider_uuid":`)
		w.quoted(string(row.Root))
	}
	w.put(`}`)
}
