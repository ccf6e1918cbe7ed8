package server

import (
	"encoding/binary"
	"encoding/json"
	"iter"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	api "github.com/openberth/berth/api/placement"
	"github.com/openberth/berth/placement/candidate"
	"github.com/openberth/berth/placement/index"
	"github.com/openberth/berth/provider"
	"github.com/openberth/berth/resource"
)

// answerWriter writes the answer of GET /allocation_candidates while the candidates are found: it can be megabytes, and is put
// together from pieces that are written once, not by reflection over maps of maps.
type answerWriter struct {
	call     *call
	snapshot *index.Snapshot
	ask      resource.Ask
	out      jsonBuffer
	sending  time.Duration // how long the client took to take the parts

	items     []itemText            // by Take.Item; made at the first candidate
	trees     []*index.Tree         // that candidates take something from, in the order in which they turned up
	seenTrees map[*index.Tree]bool  // the same
	used      map[provider.ID]bool  // providers that candidates take something from; nil where nobody asks
	slots     []slotText            // by Take.Slot
	next      []int                 // by take: 1 + the next one on the same spot, or 0
	sums      map[string]jsonBuffer // by the numbers of items that share a provider: what they take together
}

// slotText is what is written of a provider, and who takes from it in the candidate at hand.
type slotText struct {
	node *index.Node
	id   jsonBuffer // `"uuid"`, of node
	head int        // 1 + the first take on it, or 0; 0 between two candidates
}

// itemText is what is written of an item in each candidate.
type itemText struct {
	group  jsonBuffer // `"suffix":[`
	amount jsonBuffer // `{"VCPU":1}`
}

// newAnswerWriter makes a writer; close it.
func newAnswerWriter(c *call, snapshot *index.Snapshot, ask resource.Ask) *answerWriter {
	w := &answerWriter{call: c, snapshot: snapshot, ask: ask, seenTrees: map[*index.Tree]bool{}, sums: map[string]jsonBuffer{}}
	if c.version < sinceNestedCandidates {
		w.used = map[provider.ID]bool{}
	}
	if kept, ok := c.server.buffers.Get().(*jsonBuffer); ok {
		w.out = (*kept)[:0]
	}
	return w
}

// close leaves the buffer for others.
func (w *answerWriter) close() {
	if cap(w.out) <= 2*chunkSize {
		w.call.server.buffers.Put(&w.out)
	}
}

// flushIfFull sends what is written when it is a part.
func (w *answerWriter) flushIfFull() error {
	if len(w.out) < chunkSize {
		return nil
	}
	began := w.call.server.now()
	err := w.call.sendChunk(w.out)
	w.out = w.out[:0]
	w.sending += w.call.server.now().Sub(began)
	return err
}

// finish sends the rest.
func (w *answerWriter) finish() error {
	return w.call.sendRest(w.out)
}

// answer writes the whole answer and counts the candidates in it.
func (w *answerWriter) answer(list iter.Seq[candidate.Candidate]) (n int, err error) {
	w.out.put(`{"allocation_requests":[`)
	for found := range list {
		if n == 0 {
			w.prepareItems(found.Takes)
		}
		w.out.comma(n)
		w.request(found.Takes)
		n++
		if err = w.flushIfFull(); err != nil {
			return n, err
		}
	}
	w.out.put(`],"provider_summaries":{`)
	slices.SortFunc(w.trees, func(a, b *index.Tree) int { return strings.Compare(string(a.Root), string(b.Root)) })
	if w.used == nil {
		err = w.call.server.summaries.write(&w.out, w.snapshot, w.trees, w.flushIfFull)
	} else {
		err = w.usedSummaries()
	}
	w.out.put(`}}`)
	return n, err
}

// usedSummaries tells only of the providers that candidates use: before microversion 1.29.
func (w *answerWriter) usedSummaries() error {
	asked, n := w.ask.Total(), 0
	for _, t := range w.trees {
		for _, row := range w.snapshot.Tree(t.Root) {
			if w.used[row.ID] {
				w.out.comma(n)
				w.out.summary(row, w.call.version, asked)
				n++
			}
		}
		if err := w.flushIfFull(); err != nil {
			return err
		}
	}
	return nil
}

// request writes one candidate.
func (w *answerWriter) request(takes []candidate.Take) {
	byList := w.call.version < sinceAllocationOwner
	open, shut := `{"allocations":{`, `}`
	if byList {
		open, shut = `{"allocations":[`, `]`
		slices.SortStableFunc(takes, func(a, b candidate.Take) int { return strings.Compare(string(a.Node().ID), string(b.Node().ID)) })
	}
	w.linkTakes(takes)
	w.out.put(open)
	n := 0
	for i := range takes {
		if t := &takes[i]; w.slots[t.Slot].head == i+1 { // the others on this provider are told with the first
			w.out.comma(n)
			n++
			w.share(takes, i, byList)
			w.recordTree(t)
		}
	}
	w.out.put(shut)
	if w.call.version >= sinceMappings {
		w.mappings(takes)
	}
	w.out.put(`}`)
	for i := range takes {
		w.slots[takes[i].Slot].head = 0
	}
}

// prepareItems writes what is the same in all candidates.
func (w *answerWriter) prepareItems(takes []candidate.Take) {
	w.items, w.next = make([]itemText, len(takes)), make([]int, len(takes))
	for _, t := range takes {
		item := &w.items[t.Item]
		item.group.quoted(t.Suffix)
		item.group.put(`:[`)
		item.amount.amounts(t.Amounts)
	}
}

// linkTakes finds out who takes from which provider. A take without amounts takes from none.
func (w *answerWriter) linkTakes(takes []candidate.Take) {
	for i := len(takes) - 1; i >= 0; i-- {
		t := &takes[i]
		for t.Slot >= len(w.slots) {
			w.slots = append(w.slots, slotText{})
		}
		spot := &w.slots[t.Slot]
		if node := t.Node(); spot.node != node {
			spot.node, spot.id = node, spot.id[:0]
			spot.id.quoted(string(node.ID))
		}
		if len(t.Amounts) > 0 {
			w.next[i], spot.head = spot.head, i+1
		}
	}
}

// share writes what is taken from the provider of a take, by all that are on it.
func (w *answerWriter) share(takes []candidate.Take, first int, byList bool) {
	id := w.slots[takes[first].Slot].id
	if byList {
		w.out.put(`{"resource_provider":{"uuid":`)
		w.out = append(w.out, id...)
		w.out.put(`},"resources":`)
	} else {
		w.out = append(w.out, id...)
		w.out.put(`:{"resources":`)
	}
	if w.next[first] == 0 {
		w.out = append(w.out, w.items[takes[first].Item].amount...)
	} else {
		w.out = append(w.out, w.sum(takes, first)...)
	}
	w.out.put(`}`)
}

// maxCachedSums is how many sums are kept.
const maxCachedSums = 1000

// sum writes what the takes on one provider take together. Mostly these are the classes of the unsuffixed group.
func (w *answerWriter) sum(takes []candidate.Take, first int) jsonBuffer {
	var scratch [64]byte
	key := scratch[:0]
	for i := first + 1; i > 0; i = w.next[i-1] {
		key = binary.AppendUvarint(key, uint64(takes[i-1].Item))
	}
	if known, ok := w.sums[string(key)]; ok {
		return known
	}
	total := resource.Amounts{}
	for i := first + 1; i > 0; i = w.next[i-1] {
		for class, n := range takes[i-1].Amounts {
			total[class] += n
		}
	}
	var out jsonBuffer
	out.amounts(total)
	if len(w.sums) < maxCachedSums {
		w.sums[string(key)] = out
	}
	return out
}

// recordTree remembers of whom the summaries have to tell.
func (w *answerWriter) recordTree(t *candidate.Take) {
	if w.used != nil {
		w.used[t.Node().ID] = true
	}
	if n := len(w.trees); n > 0 && w.trees[n-1] == t.Tree || w.seenTrees[t.Tree] {
		return
	}
	w.seenTrees[t.Tree] = true
	w.trees = append(w.trees, t.Tree)
}

func (w *answerWriter) mappings(takes []candidate.Take) {
	w.out.put(`,"mappings":{`)
	for i := 0; i < len(takes); {
		w.out.comma(i)
		w.out = append(w.out, w.items[takes[i].Item].group...)
		group := i
		for ; i < len(takes) && takes[i].Suffix == takes[group].Suffix; i++ { // the unsuffixed group has several
			told := slices.ContainsFunc(takes[group:i], func(o candidate.Take) bool { return o.Slot == takes[i].Slot })
			if !told {
				w.out.comma(i - group)
				w.out = append(w.out, w.slots[takes[i].Slot].id...)
			}
		}
		w.out.put(`]`)
	}
	w.out.put(`}`)
}

// jsonBuffer is JSON in the making.
type jsonBuffer []byte

func (t *jsonBuffer) put(more string) { *t = append(*t, more...) }

// quoted writes a text as JSON. Nearly all are UUIDs and names of upper-case letters, which are written as they are.
func (t *jsonBuffer) quoted(words string) {
	for i := range len(words) {
		if b := words[i]; b < ' ' || b > '~' || b == '"' || b == '\\' {
			data, err := json.Marshal(words)
			if err != nil {
				data = []byte(`""`) // no text fails to be written
			}
			*t = append(*t, data...)
			return
		}
	}
	*t = append(append(append(*t, '"'), words...), '"')
}

func (t *jsonBuffer) number(n int) { *t = strconv.AppendInt(*t, int64(n), 10) }

// comma separates the items of a list or an object.
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

// summary tells of one provider what a microversion tells.
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
