package novalink

import (
	"embed"
	"fmt"
	"hash/crc32"
	"net/http"
)

// systemFiles are recorded answers about managed systems, with invented values. Their shapes are those of real servers:
// old firmware without device ids, a management console with two systems of equal indices whose slots are repeated
// under their buses, adapters in SR-IOV mode, a system that starts, one without the list of slots, one whose list is
// empty, and numbers that are not numbers.
//
//go:embed systems/*.xml
var systemFiles embed.FS

// RecordedNames lists the recorded answers.
func RecordedNames() (names []string) {
	entries, _ := systemFiles.ReadDir("systems") // it is in the program
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return names
}

// Recorded returns a recorded answer by its name; nil for a name that does not exist.
func Recorded(name string) []byte {
	text, err := systemFiles.ReadFile("systems/" + name)
	if err != nil {
		return nil
	}
	return text
}

// serveRecorded answers a request for all systems with the recorded answer.
func (s *Server) serveRecorded(r *http.Request) reply {
	tag := fmt.Sprint(-int64(crc32.ChecksumIEEE(s.options.Recorded)))
	if r.Header.Get("If-None-Match") == tag {
		return reply{status: http.StatusNotModified, etag: tag}
	}
	return reply{status: http.StatusOK, etag: tag, raw: s.options.Recorded}
}
