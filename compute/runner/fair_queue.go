package runner

// fairQueue holds the keys that are ready for a worker. It serves the groups in turn, such as projects, and within a
// group the oldest key first. So the work of one group does not delay that of another, however much it is.
type fairQueue struct {
	waiting map[string][]string // keys by group; no list is empty
	turns   []string            // the groups in waiting, the next one first
	running map[string]int      // number of keys being worked on, by group
	busy    int                 // sum of running
}

// reserved is the number of workers that only take keys of groups that have no worker yet: the others may all be busy
// with slow steps of few groups.
const reserved = 2

// push adds a key of a group.
func (q *fairQueue) push(group, key string) {
	if q.waiting == nil {
		q.waiting, q.running = map[string][]string{}, map[string]int{}
	}
	if len(q.waiting[group]) == 0 {
		q.turns = append(q.turns, group)
	}
	q.waiting[group] = append(q.waiting[group], key)
}

// pop removes and returns the next key that a worker may take; ok is false if there is none now. workers is the number
// of workers for all groups, without the reserved ones.
func (q *fairQueue) pop(workers int) (key string, ok bool) {
	for i, group := range q.turns {
		if q.running[group] > 0 && q.busy >= workers {
			continue
		}
		key = q.waiting[group][0]
		q.turns = append(q.turns[:i:i], q.turns[i+1:]...)
		if rest := q.waiting[group][1:]; len(rest) > 0 {
			q.waiting[group] = rest
			q.turns = append(q.turns, group)
		} else {
			delete(q.waiting, group)
		}
		q.running[group]++
		q.busy++
		return key, true
	}
	return "", false
}

// done records that a worker has finished with a key of a group.
func (q *fairQueue) done(group string) {
	q.busy--
	if q.running[group]--; q.running[group] == 0 {
		delete(q.running, group)
	}
}

// remove removes a key, if it waits.
func (q *fairQueue) remove(group, key string) {
	list := q.waiting[group]
	for i, waiting := range list {
		if waiting != key {
			continue
		}
		q.waiting[group] = append(list[:i:i], list[i+1:]...)
		if len(q.waiting[group]) > 0 {
			return
		}
		delete(q.waiting, group)
		for j, turn := range q.turns {
			if turn == group {
				q.turns = append(q.turns[:j:j], q.turns[j+1:]...)
				return
			}
		}
	}
}
