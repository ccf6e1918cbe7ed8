package store

import (
	"errors"
	"io/fs"
	"os"
	"strings"

	"github.com/google/uuid"
)

// Unreadable reads the record of each image of a directory, and compares the size of its data, beside a service that
// uses it. It returns an error for each image whose files cannot be read, and the number of records. It writes nothing.
// err is an error of the directory.
func Unreadable(dir string) (bad []error, records int, err error) {
	s := &Store{dir: dir, images: map[string]Image{}}
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, 0, failed("open", err)
	}
	for _, entry := range entries {
		id, ok := strings.CutSuffix(entry.Name(), recordSuffix)
		if !ok || uuid.Validate(id) != nil {
			continue
		}
		err := s.readRecord(id)
		if errors.Is(err, fs.ErrNotExist) {
			continue // deleted meanwhile
		}
		if records++; err != nil {
			bad = append(bad, err)
		}
	}
	return bad, records, nil
}
