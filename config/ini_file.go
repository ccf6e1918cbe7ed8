package config

import (
	"bytes"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/openberth/berth/fault"
)

// File is one parsed file: its entries in the order of their lines, repeated ones included.
type File struct {
	Name    string
	Entries []Entry
}

// Parse parses the text of a file. It stops at the first line that oslo.config would refuse, with a fault Invalid
// that names the line.
//
// A line is an option (`name = value` or `name : value`), a continuation of the option above (it begins with a
// blank), a group (`[name]`), a comment (it begins with # or ;) or empty. Every line except a continuation ends an
// option. One pair of quotes around a whole first line is removed.
func Parse(file string, text []byte) (*File, error) {
	p := &parser{file: &File{Name: file}}
	if bytes.HasPrefix(text, []byte("\ufeff")) {
		return nil, p.fault(1, "the file begins with a byte order mark; save it as UTF-8 without one")
	}
	text = bytes.ReplaceAll(text, []byte("\r\n"), []byte("\n"))
	text = bytes.ReplaceAll(text, []byte("\r"), []byte("\n"))
	for i, line := range bytes.Split(text, []byte("\n")) {
		if !utf8.Valid(line) {
			return nil, p.fault(i+1, "the line is not UTF-8 text; save the file in that encoding")
		}
		if err := p.line(i+1, strings.TrimRightFunc(string(line), isSpace)); err != nil {
			return nil, err
		}
	}
	return p.file, nil
}

// parser is the state between two lines.
type parser struct {
	file  *File
	group string // empty before the first one
	open  bool   // the last entry may be continued
}

func (p *parser) fault(line int, format string, args ...any) error {
	at := Entry{File: p.file.Name, Line: line}
	return fault.New(fault.Invalid, strings.ReplaceAll(at.Place(), "%", "%%")+": "+format, args...)
}

// line parses the next line, without the blanks at its end.
func (p *parser) line(number int, line string) error {
	if line == "" {
		p.open = false
		return nil
	}
	if line[0] == ' ' || line[0] == '\t' {
		if !p.open {
			return p.fault(number, "%q begins with a blank, which continues an option, but there is no option above it; "+
				"remove the blank", line)
		}
		last := &p.file.Entries[len(p.file.Entries)-1]
		last.Value += "\n" + strings.TrimLeftFunc(line, isSpace)
		return nil
	}
	p.open = false
	switch line[0] {
	case '#', ';':
		return nil
	case '[':
		return p.section(number, line)
	}
	return p.option(number, line)
}

func (p *parser) section(number int, line string) error {
	name, ok := strings.CutSuffix(line[1:], "]")
	if !ok {
		return p.fault(number, "%q begins a group but does not end with ]; nothing may follow the bracket, "+
			"not even a comment", line)
	}
	if name == "" {
		return p.fault(number, "the group has no name; write one such as [DEFAULT]")
	}
	p.group = name
	return nil
}

func (p *parser) option(number int, line string) error {
	at := strings.IndexAny(line, "=:")
	if at < 0 {
		return p.fault(number, "%q is not an option; write `name = value`, or # before a comment", line)
	}
	name := strings.TrimFunc(line[:at], isSpace)
	if name == "" {
		return p.fault(number, "%q has no name before its %q", line, line[at])
	}
	if p.group == "" {
		return p.fault(number, "option %s is before the first group; write [DEFAULT] or another group above it", name)
	}
	p.file.Entries = append(p.file.Entries, Entry{File: p.file.Name, Line: number, Group: p.group, Option: name,
		Value: unquoted(strings.TrimFunc(line[at+1:], isSpace))})
	p.open = true
	return nil
}

// unquoted removes quotes if the text begins and ends with the same one. A single quote is treated as both.
func unquoted(text string) string {
	if !quoted(text) {
		return text
	}
	return text[1:max(1, len(text)-1)]
}

func quoted(text string) bool {
	return text != "" && (text[0] == '"' || text[0] == '\'') && text[len(text)-1] == text[0]
}

// isSpace reports whether Python treats a character as a blank: Unicode's, and four control characters.
func isSpace(r rune) bool { return unicode.IsSpace(r) || r >= 0x1c && r <= 0x1f }

// Print writes the file so that Parse reads the same entries, without comments and empty groups.
func (f *File) Print() []byte {
	var out bytes.Buffer
	group := ""
	for _, entry := range f.Entries {
		if entry.Group != group {
			if group != "" {
				out.WriteByte('\n')
			}
			group = entry.Group
			out.WriteString("[" + group + "]\n")
		}
		if strings.ContainsAny(entry.Option[:1], "#;[") {
			// a blank that is not a continuation: it keeps the name from being parsed as something else
			out.WriteByte('\f')
		}
		first, rest, more := strings.Cut(entry.Value, "\n")
		if quoted(first) || strings.TrimFunc(first, isSpace) != first {
			first = `"` + first + `"`
		}
		out.WriteString(strings.TrimRight(entry.Option+" = "+first, " ") + "\n")
		if more {
			out.WriteString("  " + strings.ReplaceAll(rest, "\n", "\n  ") + "\n")
		}
	}
	return out.Bytes()
}
