package server

import (
	"encoding/json"
	"iter"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"time"

	"github.com/openberth/berth/fault"
	"github.com/openberth/berth/placement/candidate"
	"github.com/openberth/berth/placement/index"
	"github.com/openberth/berth/provider"
	"github.com/openberth/berth/resource"
)

// part is how much of an answer, in bytes, is kept before it is sent. An answer that is smaller is sent at once, with its length.
const part = 1 << 20

// answerWriter writes the answer of GET /allocation_candidates piece by piece: it can be megabytes, and reflection over
// maps of maps would be most of the time that a question takes.
type answerWriter struct {
	call     *call
	snapshot *index.Snapshot
	ask      resource.Ask
	out      []byte
	sending  time.Duration // how long the client took to take the parts

	used  map[provider.ID]bool // providers that candidates take something from
	roots map[provider.ID]bool // of their trees

	ids      []provider.ID // scratch: the keys of the map that is being written
	classes  []resource.Class
	suffixes []string
}

// newAnswerWriter makes a writer; close it.
func newAnswerWriter(c *call, snapshot *index.Snapshot, ask resource.Ask) *answerWriter {
	w := &answerWriter{call: c, snapshot: snapshot, ask: ask, used: map[provider.ID]bool{}, roots: map[provider.ID]bool{}}
	if kept, ok := c.server.buffers.Get().(*[]byte); ok {
		w.out = (*kept)[:0]
	}
	return w
}

// close leaves the buffer for others.
func (w *answerWriter) close() {
	if cap(w.out) <= 2*part {
		w.call.server.buffers.Put(&w.out)
	}
}

// relieve sends what is written when it is a part.
func (w *answerWriter) relieve() error {
	if len(w.out) < part {
		return nil
	}
	began := w.call.server.now()
	if w.call.status == 0 {
		w.call.begin(http.StatusOK, true)
	}
	err := w.call.write(w.out)
	w.out = w.out[:0]
	w.sending += w.call.server.now().Sub(began)
	if err != nil {
		return fault.New(fault.Unavailable, "placement.server", "the client takes no more of the answer: %w", err)
	}
	return nil
}

// end sends the rest.
func (w *answerWriter) end() error {
	if w.call.status == 0 {
		w.call.send(http.StatusOK, w.out)
		return nil
	}
	return w.call.write(w.out)
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

// answer writes the whole answer and counts the candidates in it.
func (w *answerWriter) answer(list iter.Seq[candidate.Candidate]) (n int, err error) {
	w.put(`{"allocation_requests":[`)
	for found := range list {
		w.comma(n)
		w.request(found)
		w.note(found)
		n++
		if err = w.relieve(); err != nil {
			return n, err
		}
	}
	w.put(`],"provider_summaries":{`)
	asked, nested, i := w.ask.Total(), w.call.version >= sinceNestedCandidates, 0
	for _, root := range slices.Sorted(maps.Keys(w.roots)) {
		for _, row := range w.snapshot.Tree(root) { // of the trees that candidates take something from, all is told
			if !nested && !w.used[row.ID] {
				continue
			}
			w.comma(i)
			w.summary(row, asked)
			i++
			if err = w.relieve(); err != nil {
				return n, err
			}
		}
	}
	w.put(`}}`)
	return n, nil
}

// note keeps in mind which providers the answer has to tell of.
func (w *answerWriter) note(found candidate.Candidate) {
	for id := range found.Allocation {
		if !w.used[id] {
			w.used[id] = true
			w.roots[w.snapshot.RootOf(id)] = true
		}
	}
}

func (w *answerWriter) request(found candidate.Candidate) {
	byList := w.call.version < sinceAllocationOwner
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
	if w.call.version >= sinceMappings {
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
		if _, wanted := asked[class]; !wanted && w.call.version < sinceSummaryAll {
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
	if w.call.version >= sinceSummaryTraits {
		w.put(`,"traits":[`)
		for i, t := range row.Traits {
			w.comma(i)
			w.quoted(string(t))
		}
		w.put(`]`)
	}
	if w.call.version >= sinceNestedCandidates {
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
