package pci

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/openberth/berth/fault"
	"github.com/openberth/berth/resource"
)

func TestParseFlavorAliases(t *testing.T) {
	for text, want := range map[string][]AliasCount{
		"gpu:1":                          {{"gpu", 1}},
		" Cirrus Logic : 4, IntelNIC: 3": {{"Cirrus Logic", 4}, {"IntelNIC", 3}},
		"a:1,a:2":                        {{"a", 1}, {"a", 2}},
		fmt.Sprintf("a:%d", MaxCount):    {{"a", MaxCount}},
	} {
		if got, err := ParseFlavorAliases(text); err != nil || !slices.Equal(got, want) {
			t.Errorf("%q: %v %v", text, got, err)
		}
	}
	for _, text := range []string{"", "a", "a:", ":1", "a:0", "a:-1", "a:+1", "a:1.5", "a:1:2", "a:1,", ",a:1", "a:x",
		"a:257", "a:99999999999999999999"} {
		got, err := ParseFlavorAliases(text)
		if err == nil || !strings.Contains(fault.TextOf(err), "pci_passthrough:alias") {
			t.Errorf("%q: %v %v", text, got, err)
		}
	}
}

// TestFlavorAliasRows tests texts of the flavor extra spec (rows A11, A12, A14, A15 and M6).
func TestFlavorAliasRows(t *testing.T) {
	as, err := ParseAliases(false, `{"name":"QuickAssist","vendor_id":"8086","product_id":"0443"}`,
		`{"name":"IntelNIC","vendor_id":"8086","product_id":"1111"}`,
		`{"name":" Cirrus Logic ","vendor_id":"1013","product_id":"00b8"}`,
		`{"name":"IntelNIC","vendor_id":"8086","product_id":"1112"}`)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ row, text, want, refused string }{
		{row: "A11 two aliases with blanks", text: "QuickAssist : 3, IntelNIC: 1",
			want: "QuickAssist:3:0443 IntelNIC:1:1111|1112"},
		{row: "A12 an unknown alias", text: "Nvidia:1", refused: `"Nvidia"`},
		{row: "A14 an alias name with a blank", text: " Cirrus Logic : 4, IntelNIC: 3",
			want: "Cirrus Logic:4:00b8 IntelNIC:3:1111|1112"},
		{row: "A15 an empty text", text: "", want: ""},
		{row: "M6 blank count", text: "IntelNIC:", refused: "count"},
		{row: "M6 no device", text: "IntelNIC:0", refused: "from 1"},
		{row: "M6 no count", text: "IntelNIC", refused: "a colon and a count"},
		{row: "M6 two counts", text: "IntelNIC:1:2", refused: "a colon and a count"},
		{row: "M6 trailing comma", text: "IntelNIC:1,", refused: "a colon and a count"},
		{row: "M6 a name twice is two requests", text: "IntelNIC:1,IntelNIC:2",
			want: "IntelNIC:1:1111|1112 IntelNIC:2:1111|1112"},
	} {
		t.Run(c.row, func(t *testing.T) {
			n := 0
			list, err := as.Requests(c.text, func() string { n++; return fmt.Sprint(n) })
			if c.refused != "" {
				if !fault.Is(err, fault.Invalid) || !strings.Contains(fault.TextOf(err), c.refused) {
					t.Errorf("got %v %v, want an Invalid error with %s", list, err, c.refused)
				}
				return
			}
			var words []string
			for i, r := range list {
				products := r.Requirement.Product
				for _, o := range r.Alternatives {
					products += "|" + o.Product
				}
				words = append(words, fmt.Sprintf("%s:%d:%s", r.Alias, r.Count, products))
				if r.ID != fmt.Sprint(i+1) || r.Providers != nil {
					t.Errorf("request %+v", r)
				}
			}
			if got := strings.Join(words, " "); err != nil || got != c.want {
				t.Errorf("got %q %v, want %q", got, err, c.want)
			}
		})
	}
}

func TestRequests(t *testing.T) {
	as, err := ParseAliases(true, `{"name":"gpu","resource_class":"gpu","traits":"fast"}`,
		`{"name":"nic","resource_class":"nic","numa_policy":"socket"}`)
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	newID := func() string { n++; return fmt.Sprint("id", n) }
	got, err := as.Requests(" nic : 2,gpu:1,nic:1", newID)
	want := []Request{
		{ID: "id1", Alias: "nic", Count: 2, Requirement: Requirement{Class: "CUSTOM_NIC"}, Policy: Socket},
		{
			ID:          "id2",
			Alias:       "gpu",
			Count:       1,
			Requirement: Requirement{Class: "CUSTOM_GPU", Required: []resource.Trait{"CUSTOM_FAST"}},
			Policy:      Legacy,
		},
		{ID: "id3", Alias: "nic", Count: 1, Requirement: Requirement{Class: "CUSTOM_NIC"}, Policy: Socket},
	}
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("%+v %v", got, err)
	}
	if got, err := as.Requests(" ", newID); err != nil || got != nil {
		t.Errorf("%v %v", got, err)
	}
	_, err = as.Requests("gpo:1", newID)
	if !fault.Is(err, fault.Invalid) || !strings.Contains(fault.TextOf(err), `did you mean "gpu"?`) {
		t.Error(err)
	}
	if _, err := as.Requests("gpu", newID); err == nil {
		t.Error("an alias without a count is accepted")
	}
}

// TestRequestsDoNotShareMemory tests that changes of returned requests do not change the alias (A10).
func TestRequestsDoNotShareMemory(t *testing.T) {
	as, err := ParseAliases(true,
		`{"name":"a","resource_class":"x","traits":"b,!c","vendor_id":"8086","product_id":"0443"}`,
		`{"name":"a","resource_class":"x","traits":"b,!c","vendor_id":"8086","product_id":"0442"}`)
	if err != nil {
		t.Fatal(err)
	}
	requests := func() []Request {
		list, err := as.Requests("a:2,a:1", func() string { return "id" })
		if err != nil {
			t.Fatal(err)
		}
		return list
	}
	want := fmt.Sprintf("%+v", requests())
	changed := requests()
	for i := range changed {
		r := &changed[i]
		r.Providers = []resource.ProviderID{"p"}
		r.Requirement.Required[0], r.Requirement.Forbidden[0] = "CUSTOM_NO", "CUSTOM_NO"
		r.Alternatives[0].Product, r.Alternatives[0].Required[0] = "ffff", "CUSTOM_NO"
	}
	if got := fmt.Sprintf("%+v", requests()); got != want {
		t.Errorf("got %s\nwant %s", got, want)
	}
}

func FuzzParseFlavorAliases(f *testing.F) {
	for _, seed := range []string{"a:1", "a:1,b:2", " a : 007 ", "a:1,", ":", "é:256"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		list, err := ParseFlavorAliases(text)
		if err != nil {
			return
		}
		var parts []string
		for _, c := range list {
			if c.Count < 1 || c.Name == "" {
				t.Errorf("%q: %v", text, c)
			}
			parts = append(parts, c.String())
		}
		again, err := ParseFlavorAliases(strings.Join(parts, ","))
		if err != nil || !slices.Equal(again, list) {
			t.Errorf("%q: %v, then %v %v", text, list, again, err)
		}
	})
}
