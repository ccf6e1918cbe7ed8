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

// table holds the texts of hours as a database does.
type table map[int64]string

func (t table) add(test *testing.T, minute int64, s stocks) bool {
	test.Helper()
	hour := minute / Minutes
	text, err := Row{hour, t[hour]}.Add(minute, s)
	if err != nil {
		test.Fatal(err)
	}
	if text != "" {
		t[hour] = text
	}
	return text != ""
}

// Only changes are added, each minute once.
func TestAdd(t *testing.T) {
	const first = 100 * Minutes
	kept, vcpu := table{}, index.Stock{Total: 8, Reserved: 1, Used: 2}
	for _, c := range []struct {
		minute int64
		stocks stocks
		added  bool
	}{
		{first + 3, stocks{"VCPU": vcpu, "NONE": {}}, true}, {first + 4, stocks{"VCPU": vcpu}, true},
		{first + 4, stocks{"VCPU": {Total: 9}}, false}, {first + 1, stocks{"VCPU": {Total: 9}}, false},
		{first + 10, stocks{"GPU\n ": {Total: 1}}, true}, {first + 11, stocks{"GPU\n ": {Total: 1}}, true},
		{first + 59, stocks{"GPU\n ": {Total: 1}, "VCPU": vcpu}, true}, {first + 60, stocks{}, true},
	} {
		if got := kept.add(t, c.minute, c.stocks); got != c.added {
			t.Errorf("minute %d: %v, want %v", c.minute-first, got, c.added)
		}
	}
	want := table{100: "800000000000c18\n\"GPU\\n \" 10:1,0,0\n\"VCPU\" 3:8,1,2 10:0,0,0 59:8,1,2", 101: "1"}
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
		for hour, text := range kept {
			rows = append(rows, Row{hour, text})
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
			asked.Classes = []resource.Class{"B"}
			if one, err := asked.Sample(rows); err != nil || len(one) != 1 || !reflect.DeepEqual(one["B"], got["B"]) {
				t.Fatalf("seed %d: %v %v", seed, one, err)
			}
			if len(got) != 3 {
				t.Fatalf("seed %d: %d classes", seed, len(got))
			}
		}
	}
}

// A row that another program has changed is an error that names it.
func TestDamagedRows(t *testing.T) {
	for _, text := range []string{"x", "\n", "1000000000000000", "1\nVCPU 1:1,1,1",
		"1\n\n" + `"VCPU" 1:1,1,1`, vcpu("1"),
		vcpu("1:2,3"), vcpu("1:2,3,4,5"), vcpu("60:1,1,1"), vcpu("2:1,1,1 2:1,1,2"), vcpu("2:1,-1,1"), vcpu("a:1,1,1")} {
		row := Row{7, text}
		_, sampled := Range{From: 7 * Minutes, Step: 1, Steps: 60}.Sample([]Row{row})
		_, added := row.Add(7*Minutes+59, stocks{})
		for i, err := range []error{sampled, added} {
			if strings.Contains(text, " 2:") && i == 1 {
				continue // Add reads the last change only
			}
			if !fault.Is(err, fault.Internal) || !strings.Contains(err.Error(), "hour 7") {
				t.Errorf("%+v: %v", row, err)
			}
		}
	}
}

// vcpu returns a text with changes of VCPU.
func vcpu(changes string) string { return "1\n\"VCPU\" " + changes }

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
