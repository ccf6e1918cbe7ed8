package record

import "testing"

func BenchmarkServerRecord(b *testing.B) {
	text := compact(b, "server.json")
	server, err := DecodeServer("text 2", text)
	if err != nil {
		b.Fatal(err)
	}
	b.Run("encode", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if _, err := EncodeServer(server); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("decode", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if _, err := DecodeServer("text 2", text); err != nil {
				b.Fatal(err)
			}
		}
	})
}
