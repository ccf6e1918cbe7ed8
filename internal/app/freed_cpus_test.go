package app

import (
	"testing"
)

// The dedicated CPUs of a deleted server are free at once, also between two rescans: a server
// that needs all of them is created again as often as the previous one was deleted.
func TestFreedCPUsAreOfferedAtOnce(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	l.rescan = 3600
	l.up("[compute]\ncpu_dedicated_set = 0\ncpu_shared_set = 1\n")
	defer l.down()
	pinned := map[string]string{"hw:cpu_policy": "dedicated"}
	for _, name := range []string{"a", "b", "c", "d", "e"} {
		s := l.boot(name, "ACTIVE", pinned)
		l.delete(s.ID)
	}
}
