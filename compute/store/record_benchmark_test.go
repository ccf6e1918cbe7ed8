package store

import "testing"

func BenchmarkServerRecord(b *testing.B) {
	row := capturedRows(b, "captured-server-rows.jsonl")[9] // the server with NUMA cells and a device
	id, old := row["id"].(string), []byte(row["record"].(string))
	server, err := decodeServer(id, old)
	if err != nil {
		b.Fatal(err)
	}
	text, err := encodeServer(server)
	if err != nil {
		b.Fatal(err)
	}
	b.Run("encode", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if _, err := encodeServer(server); err != nil {
				b.Fatal(err)
			}
		}
	})
	for name, text := range map[string][]byte{"decode": text, "decode version 1": old} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if _, err := decodeServer(id, text); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
