package bench

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"

	"github.com/google/uuid"
)

// Ledger records what was granted to clients. Check compares it with the server's usages.
type Ledger struct {
	Halls   []string // the hosts with the claimed resources
	Project string   // used by no other client

	mu      sync.Mutex
	held    map[string]shares // by consumer
	claims  int
	refused int
}

// shares is what a consumer holds: provider → class → amount.
type shares map[string]struct {
	Resources map[string]int `json:"resources"`
}

// NewLedger returns an empty ledger for newly loaded halls.
func NewLedger(halls []string) *Ledger {
	return &Ledger{Halls: halls, Project: uuid.NewString(), held: map[string]shares{}}
}

// Counted returns how many claims were granted and refused (409), and resets both counts.
func (l *Ledger) Counted() (granted, refused int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	granted, refused = l.claims, l.refused
	l.claims, l.refused = 0, 0
	return granted, refused
}

// attempts is how often a claim is tried before it counts as an error.
const attempts = 50

// Claim returns the work of one server: request candidates, claim one of them, and release every second claim.
func (l *Ledger) Claim(c *Conn, n int) error {
	for range attempts {
		granted, err := l.try(c, n)
		if granted || err != nil {
			return err
		}
	}
	return fmt.Errorf("claim %d was refused %d times", n, attempts)
}

func (l *Ledger) try(c *Conn, n int) (granted bool, err error) {
	answer, err := c.Want(200, "GET", HallQuestion(n), nil)
	if err != nil {
		return false, err
	}
	chosen, err := candidate(answer, rand.IntN(10))
	if err != nil {
		return false, err
	}
	var response struct{ Allocations shares }
	if err := json.Unmarshal(chosen, &response); err != nil {
		return false, err
	}
	consumer := uuid.NewString()
	// The candidate is an object with allocations and mappings; the other fields of the claim are added to it.
	body := fmt.Appendf(nil, `{"project_id":%q,"user_id":"bench","consumer_generation":null,"consumer_type":"INSTANCE",%s`,
		l.Project, chosen[1:])
	status, refusal, err := c.Do("PUT", "/allocations/"+consumer, body)
	switch {
	case err != nil:
		return false, err
	case status == 409:
		l.mu.Lock()
		l.refused++
		l.mu.Unlock()
		return false, nil
	case status != 204:
		return false, fmt.Errorf("PUT /allocations/%s: %d: %.500s", consumer, status, refusal)
	}
	l.mu.Lock()
	l.claims++
	l.held[consumer] = response.Allocations
	l.mu.Unlock()
	if n%2 == 1 {
		return true, l.release(c, consumer)
	}
	return true, nil
}

func (l *Ledger) release(c *Conn, consumer string) error {
	if _, err := c.Want(204, "DELETE", "/allocations/"+consumer, nil); err != nil {
		return err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.held, consumer)
	return nil
}

// candidate extracts one candidate from a response: the one at this position, or the last.
func candidate(answer []byte, at int) (json.RawMessage, error) {
	_, list, ok := bytes.Cut(answer, []byte(`"allocation_requests"`))
	if !ok {
		return nil, fmt.Errorf("no allocation_requests in %.200s", answer)
	}
	in := json.NewDecoder(bytes.NewReader(bytes.TrimLeft(list, ": \n")))
	if _, err := in.Token(); err != nil {
		return nil, err
	}
	var chosen json.RawMessage
	for i := 0; i <= at && in.More(); i++ {
		if err := in.Decode(&chosen); err != nil {
			return nil, err
		}
	}
	if chosen == nil {
		return nil, errors.New("no candidates: the halls are full")
	}
	return chosen, nil
}

// Check compares the server's usages, for each provider and in total, with what was granted.
func (l *Ledger) Check(addr string) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	want, total := map[string]map[string]int{}, map[string]int{}
	for _, held := range l.held {
		for id, share := range held {
			if want[id] == nil {
				want[id] = map[string]int{}
			}
			for class, n := range share.Resources {
				want[id][class] += n
				total[class] += n
			}
		}
	}
	c := Dial(addr)
	defer c.Close()
	var wrong []string
	for _, hall := range l.Halls {
		ids, err := l.tree(c, hall)
		if err != nil {
			return err
		}
		for _, id := range ids {
			var response struct{ Usages map[string]int }
			if err := get(c, "/resource_providers/"+id+"/usages", &response); err != nil {
				return err
			}
			wrong = append(wrong, differences(id, response.Usages, want[id])...)
		}
	}
	var response struct {
		Usages map[string]map[string]int
	}
	if err := get(c, "/usages?project_id="+l.Project, &response); err != nil {
		return err
	}
	if instances := response.Usages["INSTANCE"]; len(l.held) > 0 {
		if instances["consumer_count"] != len(l.held) {
			wrong = append(wrong, fmt.Sprintf("%d consumers, %d were granted", instances["consumer_count"], len(l.held)))
		}
		delete(instances, "consumer_count")
		wrong = append(wrong, differences("the project", instances, total)...)
	}
	if len(wrong) > 0 {
		return fmt.Errorf("the usages are wrong: %s", strings.Join(wrong[:min(len(wrong), 10)], "; "))
	}
	return nil
}

// tree returns the providers of a hall.
func (l *Ledger) tree(c *Conn, hall string) (ids []string, err error) {
	var response struct {
		List []struct{ UUID string } `json:"resource_providers"`
	}
	err = get(c, "/resource_providers?in_tree="+hall, &response)
	for _, p := range response.List {
		ids = append(ids, p.UUID)
	}
	if err == nil && len(ids) != 3 {
		err = fmt.Errorf("hall %s has %d providers, not 3", hall, len(ids))
	}
	return ids, err
}

// get reads a JSON response.
func get(c *Conn, target string, into any) error {
	answer, err := c.Want(200, "GET", target, nil)
	if err != nil {
		return err
	}
	return json.Unmarshal(answer, into)
}

// differences returns the classes whose usage is not the granted amount.
func differences(what string, got, want map[string]int) (wrong []string) {
	for class, n := range got {
		if n != want[class] {
			wrong = append(wrong, fmt.Sprintf("%s: %d of %s are used, %d were granted", what, n, class, want[class]))
		}
	}
	for class, n := range want {
		if _, found := got[class]; !found {
			wrong = append(wrong, fmt.Sprintf("%s: no usage of %s, %d were granted", what, class, n))
		}
	}
	return wrong
}

// Empty releases everything that is still held.
func (l *Ledger) Empty(addr string) error {
	l.mu.Lock()
	var consumers []string
	for consumer := range l.held {
		consumers = append(consumers, consumer)
	}
	l.mu.Unlock()
	_, err := Run(addr, 64, Times(len(consumers)), func(c *Conn, n int) error { return l.release(c, consumers[n]) })
	return err
}
