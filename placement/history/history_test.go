package history

import (
	"math/rand/v2"
	"reflect"
	"strings"
	"testing"

	"github.com/openberth/berth/fault"
	"github.com/openberth/berth/placement/index"
	"github.com/openberth/berth/resource"
)

type stocks = map[resource.Class]index.Stock

// table holds rows as a database does.
type table map[Row]string

func (t table) hour(hour int64) (list []Row) {
	for key, text := range t {
		if key.Hour == hour {
			key.Text = text
			list = append(list, key)
		}
	}
	return list
}

func (t table) add(test *testing.T, minute int64, s stocks) int {
	test.Helper()
	rows, err := Add(t.hour(minute/Minutes), minute, s)
	if err != nil {
		test.Fatal(err)
	}
	for _, row := range rows {
		t[Row{Hour: row.Hour, Class: row.Class}] = row.Text
	}
	return len(rows)
}

// Only changes are written, each minute once.
func TestAdd(t *testing.T) {
	const first = 100 * Minutes
	kept, vcpu := table{}, index.Stock{Total: 8, Reserved: 1, Used: 2}
	for _, c := range []struct {
		minute int64
		stocks stocks
		rows   int
	}{
		{first + 3, stocks{"VCPU": vcpu, "NONE": {}}, 2}, {first + 4, stocks{"VCPU": vcpu}, 1},
		{first + 4, stocks{"VCPU": {Total: 9}}, 0}, {first + 1, stocks{"VCPU": {Total: 9}}, 0},
		{first + 10, stocks{"GPU": {Total: 1}}, 3}, {first + 11, stocks{"GPU": {Total: 1}}, 1},
		{first + 59, stocks{"GPU": {Total: 1}, "VCPU": vcpu}, 2}, {first + 60, stocks{"GPU": {Total: 1}}, 2},
	} {
		if got := kept.add(t, c.minute, c.stocks); got != c.rows {
			t.Errorf("minute %d: %d rows, want %d", c.minute-first, got, c.rows)
		}
	}
	want := table{{Hour: 100}: "800000000000c18", {Hour: 100, Class: "VCPU"}: "3:8,1,2 10:0,0,0 59:8,1,2",
		{Hour: 100, Class: "GPU"}: "10:1,0,0", {Hour: 101}: "1", {Hour: 101, Class: "GPU"}: "0:1,0,0"}
	if !reflect.DeepEqual(kept, want) {
		t.Errorf("%v, want %v", kept, want)
	}
}

// What was recorded in random minutes is sampled with every step: the minute with most used of each step, and nil where
// no minute was recorded.
func TestSampleEqualsWhatWasRecorded(t *testing.T) {
	for seed := range uint64(20) {
		r := rand.New(rand.NewPCG(seed, 1))
		const begin, minutes = 1000*Minutes - 17, 300
		kept, truth := table{}, map[int64]stocks{}
		now := stocks{}
		for minute := int64(begin); minute < begin+minutes; minute++ {
			for _, class := range []resource.Class{"A", "B", "C"} {
				switch r.IntN(8) {
				case 0:
					now[class] = index.Stock{Total: r.IntN(9), Reserved: r.IntN(2), Used: r.IntN(5)}
				case 1:
					delete(now, class)
				}
			}
			if r.IntN(4) == 0 || minute > begin+90 && minute < begin+170 {
				continue // Placement does not run
			}
			kept.add(t, minute, now)
			truth[minute] = stocks{"A": now["A"], "B": now["B"], "C": now["C"]}
		}
		var rows []Row
		for key, text := range kept {
			key.Text = text
			rows = append(rows, key)
		}
		for _, step := range []int{1, 7, 60, 500} {
			asked := Range{From: begin - 30, Step: step, Steps: (minutes+60)/step + 1}
			got, err := asked.Sample(rows)
			if err != nil {
				t.Fatal(err)
			}
			for class, list := range got {
				for n, stock := range list {
					var want *index.Stock
					for at := asked.From + int64(n*step); at < asked.From+int64((n+1)*step); at++ {
						if all, known := truth[at]; known && (want == nil || all[class].Used > want.Used) {
							want = new(all[class])
						}
					}
					if !reflect.DeepEqual(stock, want) {
						t.Fatalf("seed %d, step %d, class %s, step %d: %v, want %v", seed, step, class, n, stock, want)
					}
				}
			}
			if len(got) != 3 {
				t.Fatalf("seed %d: %d classes", seed, len(got))
			}
		}
	}
}

// A row that another program has changed is an error that names it.
func TestDamagedRows(t *testing.T) {
	for _, row := range []Row{{7, "", ""}, {7, "", "x"}, {7, "", "1000000000000000"}, {7, "VCPU", "1"},
		{7, "VCPU", "1:2,3"}, {7, "VCPU", "1:2,3,4,5"}, {7, "VCPU", "60:1,1,1"}, {7, "VCPU", "2:1,1,1 2:1,1,2"},
		{7, "VCPU", "2:1,-1,1"}, {7, "VCPU", "a:1,1,1"}} {
		_, sampled := Range{From: 7 * Minutes, Step: 1, Steps: 60}.Sample([]Row{row})
		_, added := Add([]Row{row}, 7*Minutes+59, stocks{})
		for _, err := range []error{sampled, added} {
			if !fault.Is(err, fault.Internal) || !strings.Contains(err.Error(), "hour 7") {
				t.Errorf("%+v: %v", row, err)
			}
		}
	}
}

// The hours of a range are those of its first and its last minute.
func TestHoursAndSteps(t *testing.T) {
	first, last := Range{From: 119, Step: 2, Steps: 31}.Hours()
	if first != 1 || last != 3 {
		t.Errorf("%d to %d", first, last)
	}
	if _, last := (Range{From: 60, Step: 1, Steps: 60}).Hours(); last != 1 {
		t.Errorf("the last hour is %d", last)
	}
	for minutes, want := range map[int64]int{1: 1, 1500: 1, 1501: 2, 44640: 30, 1 << 60: 1<<31 - 1} {
		if got := MinStep(minutes, 1500); got != want {
			t.Errorf("%d minutes: %d, want %d", minutes, got, want)
		}
	}
}
