package diskimage

import (
	"bytes"
	"regexp"
)

// textBytes is how much of an image is examined to learn whether it is text.
const textBytes = 512

// claimOfText returns the name of the format whose descriptor an image is: a text that names the files with the data.
// Empty: it is not a descriptor.
//
// Programs recognise a descriptor of VMDK in different ways. QEMU skips comments and blank lines, and accepts a line
// version=1, 2 or 3 after them. oslo.utils accepts each text with a line createType. Each line that only a descriptor
// has is enough here, wherever it is, in any case and with any spaces.
func claimOfText(head []byte) string {
	text := bytes.TrimPrefix(head, []byte("\xef\xbb\xbf")) // a byte order mark
	if firstLineIsVersion(text) {
		return "vmdk"
	}
	if end := bytes.IndexByte(text, 0); end >= 0 {
		text = text[:end] // a descriptor is filled up with zeros
	}
	if len(text) == 0 || !isText(text[:min(len(text), textBytes)]) {
		return ""
	}
	for name, line := range descriptorLines {
		if line.Match(text) {
			return name
		}
	}
	return ""
}

// descriptorLines are texts that only a descriptor has.
var descriptorLines = map[string]*regexp.Regexp{
	"vmdk": regexp.MustCompile(`(?i)disk\s*descriptorfile|createtype\s*=|parentfilenamehint\s*=|` +
		`(?m:^[ \t]*(rw|rdonly|noaccess)[ \t]+[0-9]+[ \t]+[a-z]+)`),
	"parallels": regexp.MustCompile(`(?i)<parallels_disk_image`),
}

// firstLineIsVersion reports whether the first line that is neither blank nor a comment is version=N.
func firstLineIsVersion(text []byte) bool {
	for {
		text = bytes.TrimLeft(text, " \t\r\n\v\f")
		if !bytes.HasPrefix(text, []byte("#")) {
			return versionLine.Match(text[:min(len(text), textBytes)])
		}
		end := bytes.IndexByte(text, '\n')
		if end < 0 {
			return false
		}
		text = text[end+1:]
	}
}

var versionLine = regexp.MustCompile(`(?i)^version[ \t]*=`)

// isText reports whether all bytes are printable ASCII or white space.
func isText(text []byte) bool {
	for _, c := range text {
		if (c < ' ' || c > '~') && (c < '\t' || c > '\r') {
			return false
		}
	}
	return true
}
