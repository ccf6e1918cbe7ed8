package journal

import (
	"bytes"
	"reflect"
	"testing"

	"github.com/openberth/berth/agent/device"
	"github.com/openberth/berth/pci"
)

// A claim is read as it was written, with all fields or with few.
func TestClaimRoundTrip(t *testing.T) {
	dir := t.TempDir()
	much, little := claim("s1", "r1", "0000:3b:00.1"), claim("s1", "r1", "0000:3c:00.0")
	little.Offer = device.Offer{Offered: pci.Offered{Device: pci.Device{Address: little.Device.Address, Vendor: "10de",
		Product: "20b0", Type: pci.Plain, NUMANode: pci.NoNUMA, IOMMUGroup: 7}, Holder: "s1", RequestID: "r1",
		State: pci.Allocated}}
	much.Slices = 4
	j := open(t, dir)
	ok(t, j.Write(Put("s1", []device.Claim{much, little})))
	ok(t, j.Close())
	got, _ := open(t, dir).State().Of("s1")
	if want := []device.Claim{much, little}; !reflect.DeepEqual(got, want) {
		t.Errorf("%+v\nwant %+v", got, want)
	}
}

// Any content is read without panic, and what was read can be written and read again.
func FuzzParse(f *testing.F) {
	line, _ := Entry{Kind: kindServer, Server: "s", Claims: toWire([]device.Claim{claim("s", "r",
		"0000:3b:00.1")})}.encode()
	header, _ := Entry{Kind: kindFormat, Version: version}.encode()
	f.Add([]byte{})
	f.Add(append(bytes.Clone(header), line...))
	f.Add(append(append(bytes.Clone(header), line...), line[:20]...))
	f.Add([]byte("{\"crc\":\"00000000\",\"entry\":{}}\n"))
	f.Fuzz(func(t *testing.T, data []byte) {
		c, err := parse("f", data)
		if err != nil {
			return
		}
		text, lines, err := c.state.encode()
		if err != nil {
			t.Fatal(err)
		}
		again, err := parse("f", text)
		if err != nil || again.torn || again.lines != lines || !reflect.DeepEqual(again.state, c.state) {
			t.Errorf("%v: %+v then %+v", err, c.state, again.state)
		}
	})
}
