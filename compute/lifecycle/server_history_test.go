package lifecycle

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/openberth/berth/compute/schedule"
	"github.com/openberth/berth/pci"
	"github.com/openberth/berth/provider"
	"github.com/openberth/berth/resource"
)

func TestHistory(t *testing.T) {
	s := fresh()
	at := noon
	for _, e := range []Event{
		Created{},
		prepared,
		StepFailed{Step: Schedule, Reason: "Placement does not answer"},
		StepFailed{Step: Schedule, Reason: "Placement does not answer"},
		Chosen{Choices: []schedule.Choice{choice("a"), choice("b")}, Candidates: 3, Refused: "1 host: full"},
		ClaimLost{Try: 1, Reason: "taken"},
		Claimed{Try: 2},
		GuestClaimed{Host: "b", Devices: []schedule.Picked{{RequestID: "R", Address: "0000:3b:00.1"}}},
		GuestFailed{Host: "b", Message: "no hugepages"},
		Released{},
		NoValidHost{Candidates: 1, Reason: "1 host: full", Again: true},
		NoValidHost{Candidates: 1, Reason: "1 host: full", Again: true},
		NoValidHost{Reason: "all are taken"},
		DeleteRequested{},
	} {
		at = at.Add(time.Second)
		s, _ = Next(s, e, at)
	}
	var got []string
	for _, m := range s.History {
		line := m.At.Format("05") + " " + m.Text
		if m.Times > 1 {
			line += fmt.Sprintf(" (%d times)", m.Times)
		}
		got = append(got, line)
	}
	want := []string{
		"02 asks for 1 of alias nic",
		"04 cannot schedule now, will try again: Placement does not answer (2 times)",
		"05 Placement returned 3 candidates; 2 choices; refused: 1 host: full",
		"05 claiming host a; 1 of alias nic from provider pf-a",
		"06 lost the claim on a: taken",
		"06 claiming host b; 1 of alias nic from provider pf-b",
		"07 claimed on b; waiting for its agent to build the guest",
		"08 the agent of b picked 0000:3b:00.1 for alias nic",
		"09 the guest failed on b: no hugepages",
		"10 released its allocations in Placement",
		"12 Placement returned 1 candidate; no host is suitable: 1 host: full (2 times)",
		"13 Placement returned 0 candidates; no host is suitable: all are taken",
		"13 No valid host was found: all are taken; tried before: b: no hugepages.",
		"14 deleted",
	}
	if !slices.Equal(got, want) {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	if s.Fault == nil || s.State != Deleted || s.Status() != "DELETED" {
		t.Errorf("%s %v", s.State, s.Fault)
	}
}

func TestHistoryKeepsBothEnds(t *testing.T) {
	s := fresh()
	for i := range 500 {
		s = addHistory(s, noon, fmt.Sprint(i))
	}
	if len(s.History) != maxHistory || s.History[historyHead-1].Text != fmt.Sprint(historyHead-1) ||
		s.History[maxHistory-1].Text != "499" {
		t.Errorf("%d marks: %v", len(s.History), s.History)
	}
	if s = addHistory(s, noon, strings.Repeat("ü", maxText)); len(s.History[maxHistory-1].Text) > maxText+8 {
		t.Errorf("a mark of %d bytes", len(s.History[maxHistory-1].Text))
	}
}

// The history names what devices have in common.
func TestHistoryNamesSets(t *testing.T) {
	want := "asks for 4 of alias gpu (set 1, 4 times: one pcie_root each); 8 of alias hgx (set 2: one whole fabric)"
	if got := describe(resource.Ask{}, []pci.Request{
		{ID: "R", Count: 4, Alias: "gpu", Match: &pci.Match{Set: 1, Family: "pcie_root", Times: 4}},
		{ID: "S", Count: 8, Alias: "hgx", Match: &pci.Match{Set: 2, Family: "fabric", Times: 1, Whole: true}},
	}); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}

// The history names the groups and the providers of nine equal devices once.
func TestHistoryGroupsEqualDevices(t *testing.T) {
	request := pci.Request{ID: "R", Count: 9, Alias: "vf"}
	ask := resource.Ask{Groups: []resource.Group{{Resources: resource.Amounts{"VCPU": 1}}}}
	mappings := map[string][]provider.ID{}
	for i := range 9 {
		suffix := request.GroupSuffix(i)
		ask.Groups = append(ask.Groups, resource.Group{Suffix: suffix, Resources: resource.Amounts{"CUSTOM_VF": 1}})
		mappings[suffix] = []provider.ID{[]provider.ID{"pf-a", "pf-b"}[i%2]}
	}
	ask.Groups = append(ask.Groups, resource.Group{Suffix: "1", Resources: resource.Amounts{"CUSTOM_X": 1}})
	requests := []pci.Request{request, {ID: "S", Count: 2, Alias: "nic"}}
	want := "asks for VCPU:1; group 1: CUSTOM_X:1; 9 of alias vf, each CUSTOM_VF:1; 2 of alias nic"
	if got := describe(ask, requests); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	want = "host a; 5 of alias vf from provider pf-a; 4 of alias vf from provider pf-b"
	if got := describeChoice(schedule.Choice{Host: "a", Mappings: mappings}, requests); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}
