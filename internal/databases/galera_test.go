package databases

import (
	"database/sql"
	"strings"
	"testing"
	"time"
)

// A node sees what was committed on the other; one left alone refuses statements until it is told to go on, and then the other one joins it
// and catches up.
func TestGalera(t *testing.T) {
	began := time.Now()
	c := Galera(t, 2)
	t.Logf("two nodes answer after %v", time.Since(began).Round(time.Millisecond))
	urls := c.Database(t)
	node := func(i int) *sql.DB { return dial(t, c.Nodes[i], urls[i]) }
	do(t, node(0), "CREATE TABLE n (n INTEGER PRIMARY KEY)", "INSERT INTO n VALUES (1)")
	do(t, node(1), "UPDATE n SET n = n + 1")
	c.Nodes[0].Kill(t)
	alone := node(1)
	for last := time.Now().Add(patience); ; time.Sleep(50 * time.Millisecond) {
		_, err := alone.Exec("SELECT n FROM n")
		if err != nil && strings.Contains(err.Error(), "1047") {
			break
		}
		if time.Now().After(last) {
			t.Fatalf("a node that is left alone takes statements: %v", err)
		}
	}
	c.Bootstrap(t, 1)
	do(t, alone, "UPDATE n SET n = n + 1")
	began = time.Now()
	c.Nodes[0].Restart(t)
	t.Logf("the other one is back after %v", time.Since(began).Round(time.Millisecond))
	do(t, node(0), "UPDATE n SET n = n + 1")
	var n int
	if err := alone.QueryRow("SELECT n FROM n").Scan(&n); err != nil || n != 4 {
		t.Errorf("%d, %v", n, err)
	}
}
