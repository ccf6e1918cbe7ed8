package lifecycle

import (
	"encoding/json"
	"math/rand/v2"
	"testing"
)

// Next never changes a record in place: the store shares the records that it has read.
func TestNextChangesNoRecordInPlace(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	encode := func(s Server) string {
		text, err := json.Marshal(s)
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	changed := 0
	for walk := range 300 {
		s := fresh()
		if walk%5 == 0 {
			s.MinCount = 2
		}
		var seen []Server
		var texts []string
		for range 25 {
			seen, texts = append(seen, s), append(texts, encode(s))
			for range 20 { // most events change nothing in most states
				possible := events(s)
				next, _ := Next(s, possible[rng.IntN(len(possible))], noon)
				if encode(next) != texts[len(texts)-1] {
					s = next
					changed++
					break
				}
			}
		}
		for i := range seen {
			if now := encode(seen[i]); now != texts[i] {
				t.Fatalf("walk %d: the record %d of %d has changed\n%s\n%s", walk, i, len(seen), texts[i], now)
			}
		}
	}
	if changed < 600 {
		t.Errorf("only %d changes", changed)
	}
}
