package pci

import "testing"

func TestParseAddress(t *testing.T) {
	for text, want := range map[string]Address{
		"0000:3b:00.1":     {Domain: 0, Bus: 0x3b, Slot: 0, Func: 1},
		"0000:3B:1F.7":     {Domain: 0, Bus: 0x3b, Slot: 0x1f, Func: 7},
		"10000:01:00.0":    {Domain: 0x10000, Bus: 1, Slot: 0, Func: 0},
		"1C0FFEE1":         {DRC: 0x1c0ffee1},
		"ffffffff:ff:00.0": {Domain: 0xffffffff, Bus: 0xff, Slot: 0, Func: 0},
	} {
		got, err := ParseAddress(text)
		if err != nil || got != want {
			t.Errorf("%q: %v %v", text, got, err)
		}
	}
	for _, text := range []string{"", "3b:00.1", "0000:3b:20.0", "0000:3b:00.8", "0000:3b:00", "0000:3b:00.1 ",
		"+000:3b:00.1", "1c0ffee1", "00000000", "1C0FFEE", "0000:g0:00.1", "000000000:00:00.0", "0000:3b:00.01"} {
		if got, err := ParseAddress(text); err == nil {
			t.Errorf("%q parsed as %v", text, got)
		}
	}
}

func TestProviderNameIsUpperCase(t *testing.T) {
	a, _ := ParseAddress("0000:3b:0a.0")
	if got := a.ProviderName("cmp1"); got != "cmp1_0000:3B:0A.0" {
		t.Error(got)
	}
}

func FuzzParseAddress(f *testing.F) {
	f.Add("0000:3b:00.1")
	f.Add("10000:01:1f.7")
	f.Fuzz(func(t *testing.T, text string) {
		a, err := ParseAddress(text)
		if err != nil {
			return
		}
		if b, err := ParseAddress(a.String()); err != nil || a != b {
			t.Errorf("%q: %v then %v %v", text, a, b, err)
		}
	})
}
