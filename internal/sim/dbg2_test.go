package sim

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/openberth/berth/resource"
)

func TestDebug2(t *testing.T) {
	if os.Getenv("DBG2") == "" {
		t.Skip()
	}
	o := Options{Seed: uint64(number(t, "SEED", 1)), Ops: number(t, "OPS", 20000), Hosts: number(t, "HOSTS", 24), Quiet: number(t, "QUIET", 4000), Broken: os.Getenv("BROKEN"), Without: strings.Fields(os.Getenv("WITHOUT"))}
	w := newWorld(o)
	for w.n = 1; w.n <= o.Ops && w.failure == ""; w.n++ {
		w.pass(1e9)
		w.operate()
		w.checkMarked()
		if w.failure == "" && w.n%w.o.Quiet == 0 {
			w.rest()
		}
	}
	if w.failure == "" {
		w.finish()
	}
	fmt.Println(w.n, w.failure)
	fmt.Println("clock", w.clock, "began", w.office.began, "opened", w.office.opened, "waits", w.office.waits, "epoch", w.office.epoch)
	for _, e := range w.log {
		if e.kind == Restore || e.kind == Reborn || e.kind == Lose || e.kind == Jump || e.kind == Forget {
			fmt.Println("   ", e.n, e.kind, e.at, e.text)
		}
	}
	ids := strings.Fields(os.Getenv("DBG2"))
	for _, id := range ids {
		if o := w.owners[id]; o != "" && o != id {
			ids = append(ids, o)
		}
	}
	for _, id := range ids {
		if s, ok := w.office.servers[id]; ok {
			fmt.Printf("SERVER %s: %s doing %q host %q was %q choices %d builds %d stopped %v power %q req %v\n  choice %v\n  created %v\n", id, s.State, s.Doing, s.Host, s.Was, len(s.Choices), s.Builds, s.Stopped, s.Power, s.Requested, s.Choices, s.Created)
			if s.Move != nil { fmt.Printf("  move %+v\n", *s.Move) }
			for _, st := range s.Stays() {
				fmt.Printf("  stay %s was %q on %s gone %v heard %v holds %v\n", st.Consumer, st.Was, st.Host, st.Gone, st.Heard, w.ledger.consumers[resource.ConsumerID(st.Consumer)].holds)
			}
			fmt.Println("  removals", s.Removals(), "entries", len(s.Entries()), "mayWrite", w.office.mayWrite(s), "reasons", w.office.reasons[id], "rolled", w.rolled[id], "robbed", w.robbed[id])
			continue
		}
		if m := w.byTag[id]; m != nil {
			l := w.office.lines(m.host)
			fmt.Printf("machine %s: cut %v zombie %v row known %v dead %v rev %d removals %v index %v start %s inst %s\n", id, m.cut, m.zombie, m.host.row.known, m.host.row.dead, m.host.row.revision, m.host.row.removals, m.host.servers, m.host.row.report.Start, m.host.row.report.Instance)
			fmt.Printf("  seen %+v\n", m.host.seen)
			for _, x := range l.wants {
				fmt.Printf("  want %+v\n", x.key)
			}
			fmt.Println("  remove", l.remove)
			if a := m.agent; a != nil {
				fmt.Printf("  agent %s %s phase %d connected %v read %d behind %q displaced %v heard %v pos %v remove %v removed %v tries %v retry %v due %v look %v\n", a.start, a.instance, a.phase, a.connected, a.read, a.behind, a.displaced, a.heard, a.position, a.remove, a.removed, a.tries, a.retry, w.due(m), a.look)
			}
			for gid, g := range m.guests {
				fmt.Printf("  guest %s %+v\n", gid, *g)
			}
			fmt.Println("  book", m.book.identity, m.book.position, m.book.starts, "left", m.book.left, "renames", m.book.renames, "unassigned", m.agent != nil && len(m.unassigned()) > 0)
			fmt.Println("  spent", m.book.spent)
			for _, d := range m.made {
				if m.agent != nil {
					e, _ := m.agent.set.At(d.Address)
					fmt.Printf("   device %s %s holder %q class %s spent %v mspent %v away %v", d.Address, e.State, e.Holder, e.Class, e.Spent, m.spent(e), m.away[d.Address])
					if p := w.ledger.providers[e.Provider]; p != nil {
						fmt.Print("  ", p.Inventories, w.ledger.uses[p.ID])
					}
					fmt.Println()
				}
			}
			for sid, c := range m.book.servers {
				fmt.Println("   claims", sid, len(c))
			}
			continue
		}
		fmt.Println(id, "owner", w.owners[id], "dbowner", w.office.owners[id])
	}
}

func TestDebug3(t *testing.T) {
	if os.Getenv("DBG3") == "" {
		t.Skip()
	}
	o := Options{Seed: uint64(number(t, "SEED", 1)), Ops: number(t, "OPS", 20000), Hosts: number(t, "HOSTS", 24), Quiet: number(t, "QUIET", 4000), Broken: os.Getenv("BROKEN"), Without: strings.Fields(os.Getenv("WITHOUT"))}
	w := newWorld(o)
	for w.n = 1; w.n <= o.Ops && w.failure == ""; w.n++ {
		w.pass(1e9)
		w.operate()
		w.checkMarked()
		if w.failure == "" && w.n%w.o.Quiet == 0 {
			w.rest()
		}
	}
	if w.failure == "" {
		w.finish()
	}
	fmt.Println(w.n, w.failure, "gate", w.office.gate(), "wakes", len(w.wakes))
	n := number(t, "DBG3", 60)
	if m := w.byTag[os.Getenv("M")]; m != nil {
		fmt.Println("sync", w.sync(m))
		f := w.facts(m)
		d, err := w.plan(m, f, m.agent.set.Claims(), w.waits(m))
		fmt.Println(err, d.plan.Objections, d.plan.Notes)
		_ = d.plan.Print(os.Stdout)
		for _, id := range w.ledger.trees[m.root] {
			fmt.Println(id, w.ledger.providers[id], w.ledger.uses[id])
		}
	}
	for _, e := range w.log[max(0, len(w.log)-n):] {
		fmt.Println(e.n, e.kind, e.of, e.at, e.text, e.was, e.is, brief(e.e))
	}
}
