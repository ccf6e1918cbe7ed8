package setup

import (
	"errors"
	"io/fs"
	"os"
	"strings"

	"github.com/openberth/berth/datafile"
	"github.com/openberth/berth/fault"
)

// The lines around the part of a file that init writes.
const (
	blockBegin = "# berth init: begin. `berth init --undo` removes this part; write your own options outside of it."
	blockEnd   = "# berth init: end"
)

// splitBlock returns what is before, in and after the part of init; in is empty if there is none.
func splitBlock(text string) (before, in, after string) {
	at := strings.Index(text, blockBegin)
	if at < 0 {
		return text, "", ""
	}
	before, rest := text[:at], text[at:]
	in, after, found := strings.Cut(rest, blockEnd+"\n")
	if !found {
		return before, rest, ""
	}
	return before, in + blockEnd + "\n", after
}

// withBlock returns a text in which the part of init is lines; without lines it has no such part.
func withBlock(text, lines string) string {
	before, _, after := splitBlock(text)
	if lines == "" {
		return before + after
	}
	if before != "" && !strings.HasSuffix(before, "\n") {
		before += "\n"
	}
	return before + blockBegin + "\n" + lines + blockEnd + "\n" + after
}

// readBlock returns the text of a file, and whether its part of init is lines.
func readBlock(path, lines string) (text string, same bool, err error) {
	data, err := os.ReadFile(path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return "", false, fault.Wrap(fault.Unavailable, err)
	}
	text = string(data)
	_, in, _ := splitBlock(text)
	return text, in == blockBegin+"\n"+lines+blockEnd+"\n", nil
}

// writeBlock sets the part of init in a file. A new file may be read by its owner and the group of its directory only;
// a file without content is removed.
func writeBlock(path, lines string) error {
	text, _, err := readBlock(path, lines)
	if err != nil {
		return err
	}
	text = withBlock(text, lines)
	if strings.TrimSpace(text) == "" {
		return removeFile(path)
	}
	return fault.Wrap(fault.Unavailable, datafile.ReplaceKept(path, []byte(text), 0o640))
}

// removeFile removes a file, if it exists.
func removeFile(path string) error {
	err := os.Remove(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return fault.Wrap(fault.Unavailable, err)
}

// optionsOutside returns the lines of a configuration file outside the part of init that set an option.
func optionsOutside(text string) (lines []string) {
	before, _, after := splitBlock(text)
	for line := range strings.Lines(before + after) {
		line = strings.TrimSpace(line)
		if line != "" && !strings.HasPrefix(line, "#") && !strings.HasPrefix(line, ";") && !strings.HasPrefix(line, "[") {
			lines = append(lines, line)
		}
	}
	return lines
}
