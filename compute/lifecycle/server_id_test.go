package lifecycle

import (
	"strings"
	"testing"

	"github.com/google/uuid"
)

func TestServerIDContainsReservationAndIndex(t *testing.T) {
	reservation := uuid.New()
	seen := map[string]bool{}
	var first string
	for _, i := range []int{0, 1, 255, 256, MaxRequested - 1} {
		id := ServerID(reservation, uuid.New(), i)
		got, index := Reservation(id)
		if i == 0 {
			first = got
		}
		if seen[id] || index != i || got != first || id[14] != '8' || !strings.ContainsRune("89ab", rune(id[19])) {
			t.Errorf("%d: %s, %s %d", i, id, got, index)
		}
		seen[id] = true
	}
	if got, index := Reservation("not-a-uuid"); got != "" || index != 0 {
		t.Errorf("%s %d", got, index)
	}
}
