package datafile

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// SavedMark is in the name of each copy of a lost file: the name of the file, SavedMark and the time.
const SavedMark = ".saved-"

// LastSaved returns the path of the newest saved copy of a file that does not exist; "" if the file exists or has no
// copy. It ignores copies whose names end in incomplete, because they were not finished. The error is that of reading
// the directory.
func LastSaved(path, incomplete string) (string, error) {
	if _, err := os.Stat(path); !errors.Is(err, fs.ErrNotExist) {
		return "", nil
	}
	entries, err := os.ReadDir(filepath.Dir(path))
	if err != nil {
		return "", err
	}
	saved := ""
	for _, entry := range entries { // sorted by name, so by time
		name := entry.Name()
		if strings.HasPrefix(name, filepath.Base(path)+SavedMark) && !strings.HasSuffix(name, incomplete) {
			saved = filepath.Join(filepath.Dir(path), name)
		}
	}
	return saved, nil
}
