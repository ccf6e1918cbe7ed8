package candidates

import (
	"encoding/binary"
	"encoding/json"
	"iter"
	"slices"
	"strings"
	"time"

	api "github.com/openberth/berth/api/placement"
	"github.com/openberth/berth/fault"
	"github.com/openberth/berth/placement/candidate"
	"github.com/openberth/berth/placement/index"
	"github.com/openberth/berth/placement/server/request"
	"github.com/openberth/berth/provider"
	"github.com/openberth/berth/resource"
)

// answerWriter writes the answer of GET /allocation_candidates while the candidates are found. The answer can have many
// megabytes, so it is assembled from fragments that are encoded once, without reflection.
type answerWriter struct {
	call     *request.Call
	snapshot *index.Snapshot
	ask      resource.Ask
	held     []request.Buffer // full chunks before out that are not sent yet
	out      request.Buffer
	sending  time.Duration // how long sending the chunks took

	items     []itemText                    // by Take.Item; set at the first candidate
	trees     []*index.Tree                 // that candidates use, in the order in which they were found
	seenTrees map[*index.Tree]bool          // the trees in trees
	used      map[provider.ID]bool          // providers whose summaries are written; nil: all of trees
	usedIn    map[*index.Tree][]provider.ID // those in used, by tree
	brief     bool                          // the summaries have no traits
	slots     []slotText                    // by Take.Slot
	next      []int                         // by take: 1 + the index of the next take in the same slot, or 0
	sums      map[string]request.Buffer     // total amounts, by the numbers of the items that share a provider
}

// slotText is the encoded provider of a slot, and the takes from it in the current candidate.
type slotText struct {
	node *index.Node
	id   request.Buffer // `"uuid"`, of node
	head int            // 1 + the index of the first take from it, or 0; 0 between two candidates
}

// itemText is the encoded form of an item. It is the same in all candidates.
type itemText struct {
	group  request.Buffer // `"suffix":[`
	amount request.Buffer // `{"VCPU":1}`
}

// newAnswerWriter returns a writer. The caller closes it.
func newAnswerWriter(c *request.Call, snapshot *index.Snapshot, ask resource.Ask) *answerWriter {
	w := &answerWriter{call: c, snapshot: snapshot, ask: ask, seenTrees: map[*index.Tree]bool{},
		sums: map[string]request.Buffer{}}
	w.brief = c.Microversion >= request.SinceNestedCandidates &&
		c.R.Header.Get(api.CandidatesHeader) == api.ForScheduling
	if c.Microversion < request.SinceNestedCandidates || w.brief {
		w.used, w.usedIn = map[provider.ID]bool{}, map[*index.Tree][]provider.ID{}
	}
	w.out = w.buffer()
	return w
}

// heldChunks is how many chunks of an answer wait for the end of the search: an error after the first chunk that is
// sent can only end the connection, without a text. 1,000 candidates with 32 groups need as many.
const heldChunks = 8

// buffer returns an empty buffer, of the pool if it has one.
func (w *answerWriter) buffer() request.Buffer {
	if kept, ok := w.call.Service.Buffers.Get().(*request.Buffer); ok {
		return (*kept)[:0]
	}
	return nil
}

// close returns the buffers to the pool.
func (w *answerWriter) close() {
	w.discardHeld()
	w.discard(w.out)
}

func (w *answerWriter) discard(b request.Buffer) {
	if 0 < cap(b) && cap(b) <= 2*request.ChunkSize {
		w.call.Service.Buffers.Put(&b)
	}
}

func (w *answerWriter) discardHeld() {
	for _, chunk := range w.held {
		w.discard(chunk)
	}
	w.held = nil
}

// flushIfFull holds or sends the buffer if it has reached ChunkSize.
func (w *answerWriter) flushIfFull() (err error) {
	if len(w.out) < request.ChunkSize {
		return nil
	}
	w.held = append(w.held, w.out)
	w.out = nil
	if w.call.Begun() || len(w.held) == heldChunks {
		err = w.sendHeld()
	} else {
		err = w.waitForStream()
	}
	w.out = w.buffer()
	return err
}

// waitForStream waits until the answer may have more than a chunk.
func (w *answerWriter) waitForStream() error {
	began := w.call.Service.Now()
	err := w.call.Stream()
	w.sending += w.call.Service.Now().Sub(began)
	return err
}

// sendHeld sends the chunks that wait.
func (w *answerWriter) sendHeld() error {
	defer w.discardHeld()
	began := w.call.Service.Now()
	for _, chunk := range w.held {
		if err := w.call.SendChunk(chunk); err != nil {
			return err
		}
	}
	w.sending += w.call.Service.Now().Sub(began)
	return nil
}

// explain adds why there are no candidates.
func (w *answerWriter) explain(why api.Explanation) error {
	text, err := json.Marshal(why)
	if err != nil {
		return fault.New(fault.Internal, "cannot write the explanation: %w", err)
	}
	w.out.Put(`,"` + api.ExplanationKey + `":`)
	w.out = append(w.out, text...)
	return nil
}

// finish sends the rest of the answer. undecided is what the search has not decided, for a scheduler; empty: nothing.
func (w *answerWriter) finish(undecided string) error {
	if undecided != "" {
		w.out.Put(`,"` + api.UndecidedKey + `":`)
		w.out.Quoted(undecided)
	}
	w.out.Put(`}`)
	return w.call.SendRest(append(w.held, w.out)...)
}

// answer writes the whole answer and returns the number of candidates in it.
func (w *answerWriter) answer(list iter.Seq[candidate.Candidate]) (n int, err error) {
	w.out.Put(`{"allocation_requests":[`)
	for found := range list {
		if n == 0 {
			w.prepareItems(found.Takes)
		}
		w.out.Comma(n)
		w.request(found.Takes)
		n++
		if err = w.flushIfFull(); err != nil {
			return n, err
		}
	}
	w.out.Put(`],"provider_summaries":{`)
	slices.SortFunc(w.trees, func(a, b *index.Tree) int { return strings.Compare(string(a.Root), string(b.Root)) })
	if w.used == nil {
		err = w.treeSummaries()
	} else {
		err = w.usedSummaries()
	}
	w.out.Put(`}`)
	return n, err
}

// treeSummaries writes the summaries of all providers of the trees.
func (w *answerWriter) treeSummaries() error {
	n := 0
	for text := range w.call.Service.Summaries.Of(w.snapshot, w.trees, encodeSummaries) {
		w.out.Comma(n)
		w.out = append(w.out, text...)
		n++
		if err := w.flushIfFull(); err != nil {
			return err
		}
	}
	return nil
}

// usedSummaries writes the summaries of the providers in used, as before microversion 1.29.
func (w *answerWriter) usedSummaries() error {
	asked, n := w.ask.Total(), 0
	for _, t := range w.trees {
		for _, id := range w.usedIn[t] {
			row, _ := w.snapshot.Row(id)
			if w.brief {
				row.Traits = nil
			}
			w.out.Comma(n)
			putSummary(&w.out, row, w.call.Microversion, asked)
			n++
		}
		if err := w.flushIfFull(); err != nil {
			return err
		}
	}
	return nil
}

// request writes one candidate.
func (w *answerWriter) request(takes []candidate.Take) {
	byList := w.call.Microversion < request.SinceAllocationOwner
	open, shut := `{"allocations":{`, `}`
	if byList {
		open, shut = `{"allocations":[`, `]`
		slices.SortStableFunc(takes, func(a, b candidate.Take) int {
			return strings.Compare(string(a.Node().ID), string(b.Node().ID))
		})
	}
	w.linkTakes(takes)
	w.out.Put(open)
	n := 0
	for i := range takes {
		if t := &takes[i]; w.slots[t.Slot].head == i+1 { // it includes the other takes from this provider
			w.out.Comma(n)
			n++
			w.share(takes, i, byList)
			w.recordTree(t)
		}
	}
	w.out.Put(shut)
	if w.call.Microversion >= request.SinceMappings {
		w.mappings(takes)
	}
	w.out.Put(`}`)
	for i := range takes {
		w.slots[takes[i].Slot].head = 0
	}
}

// prepareItems encodes what is the same in all candidates.
func (w *answerWriter) prepareItems(takes []candidate.Take) {
	w.items, w.next = make([]itemText, len(takes)), make([]int, len(takes))
	for _, t := range takes {
		item := &w.items[t.Item]
		item.group.Quoted(t.Suffix)
		item.group.Put(`:[`)
		item.amount.Amounts(t.Amounts)
	}
}

// linkTakes links the takes from each provider into a list. It skips takes without amounts.
func (w *answerWriter) linkTakes(takes []candidate.Take) {
	for i := len(takes) - 1; i >= 0; i-- {
		t := &takes[i]
		for t.Slot >= len(w.slots) {
			w.slots = append(w.slots, slotText{})
		}
		spot := &w.slots[t.Slot]
		if node := t.Node(); spot.node != node {
			spot.node, spot.id = node, spot.id[:0]
			spot.id.Quoted(string(node.ID))
		}
		if len(t.Amounts) > 0 {
			w.next[i], spot.head = spot.head, i+1
		}
	}
}

// share writes the total amounts of all takes from one provider; first is the first of these takes.
func (w *answerWriter) share(takes []candidate.Take, first int, byList bool) {
	id := w.slots[takes[first].Slot].id
	if byList {
		w.out.Put(`{"resource_provider":{"uuid":`)
		w.out = append(w.out, id...)
		w.out.Put(`},"resources":`)
	} else {
		w.out = append(w.out, id...)
		w.out.Put(`:{"resources":`)
	}
	if w.next[first] == 0 {
		w.out = append(w.out, w.items[takes[first].Item].amount...)
	} else {
		w.out = append(w.out, w.sum(takes, first)...)
	}
	w.out.Put(`}`)
}

// maxCachedSums is the maximum number of entries in answerWriter.sums.
const maxCachedSums = 1000

// sum returns the encoded total amounts of all takes from one provider. Several takes from one provider are mostly the
// classes of the unsuffixed group.
func (w *answerWriter) sum(takes []candidate.Take, first int) request.Buffer {
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
	var out request.Buffer
	out.Amounts(total)
	if len(w.sums) < maxCachedSums {
		w.sums[string(key)] = out
	}
	return out
}

// recordTree records the tree and the provider of a take for the summaries.
func (w *answerWriter) recordTree(t *candidate.Take) {
	w.use(t.Tree, t.Node().ID)
	if n := len(w.trees); n > 0 && w.trees[n-1] == t.Tree || w.seenTrees[t.Tree] {
		return
	}
	w.seenTrees[t.Tree] = true
	if w.brief {
		w.use(t.Tree, t.Tree.Root)
	}
	w.trees = append(w.trees, t.Tree)
}

// use records a provider for usedSummaries.
func (w *answerWriter) use(tree *index.Tree, id provider.ID) {
	if w.used == nil || w.used[id] {
		return
	}
	w.used[id] = true
	w.usedIn[tree] = append(w.usedIn[tree], id)
}

// mappings writes the providers of each request group.
func (w *answerWriter) mappings(takes []candidate.Take) {
	w.out.Put(`,"mappings":{`)
	for i := 0; i < len(takes); {
		w.out.Comma(i)
		w.out = append(w.out, w.items[takes[i].Item].group...)
		group := i
		for ; i < len(takes) &&
			takes[i].Suffix == takes[group].Suffix; i++ { // the unsuffixed group may have several takes
			written := slices.ContainsFunc(takes[group:i],
				func(o candidate.Take) bool { return o.Slot == takes[i].Slot })
			if !written {
				w.out.Comma(i - group)
				w.out = append(w.out, w.slots[takes[i].Slot].id...)
			}
		}
		w.out.Put(`]`)
	}
	w.out.Put(`}`)
}
