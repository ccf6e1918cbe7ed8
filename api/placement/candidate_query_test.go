package placement

import (
	"maps"
	"net/url"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/openberth/berth/fault"
	"github.com/openberth/berth/resource"
)

const (
	uuidA = "aaaaaaaa-aaaa-4aaa-8aaa-aaaaaaaaaaaa"
	uuidB = "bbbbbbbb-bbbb-4bbb-8bbb-bbbbbbbbbbbb"
	uuidC = "cccccccc-cccc-4ccc-8ccc-cccccccccccc"
)

// whole is an ask that uses the whole syntax, in its normal form.
func wholeAsk() resource.Ask {
	return resource.Ask{
		Groups: []resource.Group{
			{
				Resources:   resource.Amounts{"VCPU": 2, "MEMORY_MB": 1024},
				Required:    [][]resource.Trait{{"A"}, {"B", "C"}, {"D"}},
				Forbidden:   []resource.Trait{"E", "F"},
				MemberOf:    [][]resource.AggregateID{{uuidA}, {uuidA, uuidB}},
				NotMemberOf: []resource.AggregateID{uuidC},
				InTree:      uuidB,
			},
			{Suffix: "_NIC-1", Resources: resource.Amounts{"SRIOV_NET_VF": 1}},
			{Suffix: "root", Required: [][]resource.Trait{{"ROOT"}}},
		},
		GroupPolicy:   resource.PolicyIsolate,
		SameSubtree:   [][]string{{"_NIC-1", "root"}},
		RootRequired:  []resource.Trait{"G"},
		RootForbidden: []resource.Trait{"H"},
		Limit:         7,
	}
}

func TestAskQueryRoundTrip(t *testing.T) {
	for name, ask := range map[string]resource.Ask{
		"everything": wholeAsk(),
		"least":      {Groups: []resource.Group{{Resources: resource.Amounts{"VCPU": 1}}}},
		"suffixed": {Groups: []resource.Group{{Suffix: "1", Resources: resource.Amounts{"VCPU": 1},
			Forbidden: []resource.Trait{"X"}}}},
	} {
		t.Run(name, func(t *testing.T) {
			query, err := url.ParseQuery(AskQuery(ask).Encode())
			if err != nil {
				t.Fatal(err)
			}
			got, err := ParseAsk(Latest, query)
			if err != nil {
				t.Fatal(err)
			}
			if !reflect.DeepEqual(got, ask) {
				t.Errorf("\ngot  %+v\nwant %+v", got, ask)
			}
		})
	}
}

func TestParseAskExamplesOfTheReference(t *testing.T) {
	query, err := url.ParseQuery("resources=VCPU:2,MEMORY_MB:1024&resources=DISK_GB:5&required=A,%20!B" +
		"&required=in:C,D&required=!!!E" +
		"&member_of=" + uuidA + "&member_of=in:" + uuidA + "," + uuidB + "&member_of=!" + uuidC + "&member_of=!in:" +
		uuidB + "," + uuidC +
		"&in_tree=%20" + uuidA + "&resources1=SRIOV_NET_VF:1&required1=A,A&limit=3&limit=4&group_policy=none" +
		"&root_required=R,!S&same_subtree=1,1")
	if err != nil {
		t.Fatal(err)
	}
	got, err := ParseAsk(Latest, query)
	if err != nil {
		t.Fatal(err)
	}
	want := resource.Ask{
		Groups: []resource.Group{{
			Resources:   resource.Amounts{"DISK_GB": 5}, // of a repeated parameter without repetition the last value counts
			Required:    [][]resource.Trait{{"A"}, {"C", "D"}},
			Forbidden:   []resource.Trait{"B", "E"},
			MemberOf:    [][]resource.AggregateID{{uuidA}, {uuidA, uuidB}},
			NotMemberOf: []resource.AggregateID{uuidC, uuidB},
			InTree:      uuidA,
		}, {
			Suffix: "1", Resources: resource.Amounts{"SRIOV_NET_VF": 1}, Required: [][]resource.Trait{{"A"}},
		}},
		GroupPolicy: resource.PolicyNone, SameSubtree: [][]string{{"1"}}, Limit: 3,
		RootRequired: []resource.Trait{"R"}, RootForbidden: []resource.Trait{"S"},
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("\ngot  %+v\nwant %+v", got, want)
	}
}

// refusal is a query that is not valid at a microversion, and a part of the expected error.
type refusal struct {
	v     Version
	query string
	code  string
	want  string
}

func askRefusals() []refusal {
	manyGroups := "group_policy=none"
	for i := range MaxGroups + 1 {
		manyGroups += "&resources_" + strconv.Itoa(i) + "=VCPU:1"
	}
	return []refusal{
		{39, "", CodeQueryMissingValue, "at least one resources"},
		{39, "required=A", CodeQueryMissingValue, "at least one resources"},
		{39, "resources=", "", "empty"},
		{39, "resources=VCPU", "", "VCPU"},
		{39, "resources=VCPU:1:2", "", "CLASS:amount"},
		{39, "resources=VCPU:0", "", "1 or more"},
		{39, "resources=VCPU:-1", "", "1 or more"},
		{39, "resources=VCPU:x", "", "not an integer"},
		{39, "resources=VCPU:1&bogus=1", "", "bogus"},
		{39, "resources=VCPU:1&limit=0", "", "limit"},
		{39, "resources=VCPU:1&limit=-1", "", "limit"},
		{39, "resources=VCPU:1&limit=1x", "", "limit"},
		{39, "resources=VCPU:1&group_policy=maybe", "", "group_policy"},
		{39, "resources=VCPU:1&group_policy=none&group_policy=maybe", "", "group_policy"},
		{39, "resources=VCPU:1&limit=1&limit=x", "", "limit"},
		{39, "resources=x&resources=VCPU:1", "", "CLASS:amount"},
		{39, "resources=VCPU:1&required=A,!A", "", "Conflicting"},
		{39, "resources=VCPU:1&required=in:A,B&required=!A,!B", "", "Conflicting"},
		{39, "resources=VCPU:1&required=A,,B", "", "empty trait"},
		{39, "resources=VCPU:1&required=", "", "empty trait"},
		{39, "resources=VCPU:1&required=!", "", "empty trait"},
		{39, "resources=VCPU:1&required=in:A,!B", "", "forbidden"},
		{39, "resources=VCPU:1&required=in:", "", "empty trait"},
		{38, "resources=VCPU:1&required=in:A,B", "", "1.39"},
		{21, "resources=VCPU:1&required=!A", "", "1.22"},
		{39, "resources=VCPU:1&member_of=" + uuidA + "," + uuidB, "", "in:"},
		{39, "resources=VCPU:1&member_of=x", "", "UUID"},
		{23, "resources=VCPU:1&member_of=" + uuidA + "&member_of=" + uuidB, "", "1.24"},
		{31, "resources=VCPU:1&member_of=!" + uuidA, "", "1.32"},
		{39, "resources=VCPU:1&in_tree=x", "", "in_tree"},
		{30, "resources=VCPU:1&in_tree=" + uuidA, "", "in_tree"},
		{39, "resources1=VCPU:1&resources2=VCPU:1", "", "group_policy"},
		{24, "resources1=VCPU:1", "", "resources1"},
		{32, "resources_a=VCPU:1", "", "resources_a"},
		{32, "resources01=VCPU:1", "", "resources01"},
		{39, "resources" + strings.Repeat("a", 65) + "=VCPU:1", "", "there is no parameter"},
		{39, "resources=VCPU:1&required1=A", CodeQueryBadValue, "same_subtree"},
		{35, "resources=VCPU:1&required1=A", "", "must have resources"},
		{39, "resources=VCPU:1&same_subtree=1", CodeQueryBadValue, "no group has that suffix"},
		{39, "resources1=VCPU:1&same_subtree=1,", CodeQueryBadValue, "empty suffix"},
		{35, "resources1=VCPU:1&same_subtree=1", "", "same_subtree"},
		{39, "resources=VCPU:1&root_required=A&root_required=B", CodeQueryDuplicateKey, "once"},
		{39, "resources=VCPU:1&root_required=A,!A", CodeQueryBadValue, "forbids"},
		{39, "resources=VCPU:1&root_required=in:A", "", ""},
		{34, "resources=VCPU:1&root_required=A", "", "root_required"},
		{15, "resources=VCPU:1&limit=1", "", "limit"},
		{39, manyGroups, "", "too many"},
	}
}

func TestParseAskRefuses(t *testing.T) {
	for _, c := range askRefusals() {
		q, err := url.ParseQuery(c.query)
		if err != nil {
			t.Fatal(err)
		}
		ask, err := ParseAsk(c.v, q)
		switch {
		case !fault.Is(err, fault.Invalid):
			t.Errorf("%s ?%.80s: %v, want Invalid (%+v)", c.v, c.query, err, ask)
		case fault.CodeOf(err) != c.code:
			t.Errorf("%s ?%.80s: code %q, want %q", c.v, c.query, fault.CodeOf(err), c.code)
		case !strings.Contains(fault.TextOf(err), c.want):
			t.Errorf("%s ?%.80s: %q does not contain %q", c.v, c.query, fault.TextOf(err), c.want)
		}
	}
}

func TestRequiredUsesItsLastValueBefore139(t *testing.T) {
	q := url.Values{"resources": {"VCPU:1"}, "required": {"A", "B"}}
	for v, want := range map[Version][][]resource.Trait{38: {{"B"}}, 39: {{"A"}, {"B"}}} {
		ask, err := ParseAsk(v, q)
		if err != nil || !reflect.DeepEqual(ask.Groups[0].Required, want) {
			t.Errorf("%s: %v, %v", v, ask.Groups, err)
		}
	}
}

func FuzzParseAsk(f *testing.F) {
	f.Add(39, AskQuery(wholeAsk()).Encode())
	f.Add(39, "resources=VCPU:1&required=in:A,B&required=!C&member_of=!in:"+uuidA+","+uuidB)
	f.Add(39, "resources_A=VCPU:1&resources-B=DISK_GB:2&group_policy=none&same_subtree=_A,-B&root_required=X,!Y&limit=10")
	f.Add(25, "resources=VCPU:1&resources1=VCPU:+1&required1=A")
	f.Add(10, "resources=VCPU:99999999999999999999")
	f.Add(39, "resources=VCPU: 1 &in_tree=urn:uuid:{"+uuidA+"}&limit=0001")
	f.Fuzz(func(t *testing.T, minor int, query string) {
		q, err := url.ParseQuery(query)
		if err != nil || minor < int(Oldest) || minor > int(Latest) {
			return
		}
		ask, err := ParseAsk(Version(minor), q)
		if err != nil {
			if !fault.Is(err, fault.Invalid) {
				t.Fatalf("a refusal of kind %s: %v", fault.KindOf(err), err)
			}
			return
		}
		if !slices.IsSortedFunc(ask.Groups, func(a, b resource.Group) int { return strings.Compare(a.Suffix, b.Suffix) }) {
			t.Fatalf("groups out of order: %+v", ask.Groups)
		}
		printed := AskQuery(ask)
		again, err := ParseAsk(Latest, printed)
		if err != nil {
			// Only the newest microversion requires group_policy for some queries; no other query may be refused.
			t.Fatalf("%q is read, and printed as %q refused: %v", query, printed.Encode(), err)
		}
		if !reflect.DeepEqual(again, ask) || !maps.EqualFunc(AskQuery(again), printed, slices.Equal) {
			t.Fatalf("%q\nread  %+v\nagain %+v", query, ask, again)
		}
	})
}
