package placement

import (
	"net/url"
	"reflect"
	"strings"
	"testing"

	"github.com/openberth/berth/fault"
	"github.com/openberth/berth/resource"
)

func TestParseProviderQuery(t *testing.T) {
	q := url.Values{"name": {"n"}, "uuid": {uuidA}, "in_tree": {uuidB}, "resources": {"VCPU:1"},
		"required": {"A,!B", "in:C,D"}, "member_of": {uuidA, "!" + uuidB}}
	got, err := ParseProviderQuery(Latest, q)
	want := ProviderQuery{Name: "n", ID: uuidA,
		Group: resource.Group{InTree: uuidB, Resources: resource.Amounts{"VCPU": 1},
			Required: [][]resource.Trait{{"A"}, {"C", "D"}}, Forbidden: []resource.Trait{"B"},
			MemberOf: [][]resource.AggregateID{{uuidA}}, NotMemberOf: []resource.AggregateID{uuidB}}}
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("%+v %v", got, err)
	}
	for _, c := range []struct {
		v     Version
		query string
	}{
		{39, "uuid=" + uuidA[1:]}, {39, "uuid={" + uuidA + "}"}, {39, "in_tree=urn:uuid:" + uuidA},
		{39, "uuid=" + strings.ReplaceAll(uuidA, "-", "")}, {39, "in_tree=" + strings.ReplaceAll(uuidA, "-", "")},
		{39, "in_tree=x"}, {39, "limit=1"}, {39, "resources1=VCPU:1"},
		{13, "in_tree=" + uuidA}, {17, "required=A"}, {3, "resources=VCPU:1"}, {2, "member_of=" + uuidA},
		{39, "required=in:A,!B"},
	} {
		q, err := url.ParseQuery(c.query)
		if err != nil {
			t.Fatal(err)
		}
		if got, err := ParseProviderQuery(c.v, q); !fault.Is(err, fault.Invalid) {
			t.Errorf("%s ?%s: %+v, %v", c.v, c.query, got, err)
		}
	}
}

// FuzzParseProviderQuery checks that every query is parsed or refused with fault.Invalid.
func FuzzParseProviderQuery(f *testing.F) {
	f.Add(39, "name=n&uuid="+uuidA+"&in_tree="+uuidB+"&resources=VCPU:1&required=A,!B&required=in:C,D&member_of=!"+uuidB)
	f.Add(3, "member_of=in:"+uuidA)
	f.Add(0, "name=%00&name=")
	f.Fuzz(func(t *testing.T, minor int, query string) {
		q, err := url.ParseQuery(query)
		if err != nil || minor < int(Oldest) || minor > int(Latest) {
			return
		}
		if _, err := ParseProviderQuery(Version(minor), q); err != nil && !fault.Is(err, fault.Invalid) {
			t.Fatalf("a refusal of kind %s: %v", fault.KindOf(err), err)
		}
	})
}
