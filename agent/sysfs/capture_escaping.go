package sysfs

import (
	"strconv"
	"strings"
)

// What follows the path in the name of an entry; see Capture.
const (
	arrow          = " -> "
	unreadableMark = " !! "
	// serialEntry ends the name of an entry for a vpd file, which is not text: the entry has the serial number
	// alone.
	serialEntry = ".SN"
)

// escape writes the odd bytes of a name, or of the target of a link, as in a URL: all that a txtar archive does not
// keep, and what could be taken for the end of the name.
func escape(name string) string { return escaped(name, "") }

// escapeReason is escape for a sentence, which may have single spaces.
func escapeReason(text string) string { return escaped(text, " ") }

func escaped(name, plain string) string {
	var b strings.Builder
	for i := range len(name) {
		char := name[i]
		serial := strings.HasPrefix(name[i:], serialEntry) && (len(name) == i+len(serialEntry))
		inner := strings.IndexByte(plain, char) >= 0 && i > 0 && i < len(name)-1 && name[i-1] != char
		if inner || char > ' ' && char < 0x7f && char != '%' && !serial {
			b.WriteByte(char)
		} else {
			b.WriteString("%" + strings.ToUpper(strconv.FormatUint(uint64(char)|0x100, 16))[1:])
		}
	}
	return b.String()
}

// unescape is the inverse of escape. A percent sign without a number after it is kept.
func unescape(name string) string {
	var b strings.Builder
	for {
		before, after, found := strings.Cut(name, "%")
		b.WriteString(before)
		if !found {
			return b.String()
		}
		if n, err := strconv.ParseUint(after[:min(2, len(after))], 16, 8); err == nil && len(after) >= 2 {
			b.WriteByte(byte(n))
			name = after[2:]
		} else {
			b.WriteByte('%')
			name = after
		}
	}
}

// escapeLines puts a backslash before each line of a file that a txtar archive would parse as an entry, or that begins
// with a backslash.
func escapeLines(data string) string {
	var b strings.Builder
	for line := range strings.Lines(data) {
		if strings.HasPrefix(line, "-- ") || strings.HasPrefix(line, `\`) {
			b.WriteByte('\\')
		}
		b.WriteString(line)
	}
	return b.String()
}

// unescapeLines is the inverse of escapeLines.
func unescapeLines(data string) string {
	var b strings.Builder
	for line := range strings.Lines(data) {
		b.WriteString(strings.TrimPrefix(line, `\`))
	}
	return b.String()
}
