// Package config reads configuration files in OpenStack's syntax, as oslo.config does.
//
// A File is one parsed file; a Config is several of them in order, where later files override earlier ones. Every
// value has its file and line, so an error can name its place (Entry.Fault). Names of groups ignore case, except for
// DEFAULT; names of options do not. In a value, $name and ${group.name} refer to another option, and $$ or \$ is a
// dollar sign.
//
// Three things differ from oslo.config, because Berth does not register its options before it reads them: a reference
// is replaced by the text in the files, not by the converted value; a reference to an option that no file sets is an
// error, also inside a referenced value, where oslo.config uses a default; and NaN and infinity are not valid
// numbers.
package config

import (
	"io"
	"os"
	"strings"

	"github.com/openberth/berth/fault"
)

// maxFile is the length in bytes of the longest file that Load reads.
const maxFile = 16 << 20

// Name is an option's full name. As an option's deprecated name, an empty part means "as the option itself".
type Name struct{ Group, Option string }

// Config is the combination of several files. It is immutable, so it may be shared.
type Config struct{ files []*File }

// New combines parsed files; later ones override earlier ones.
func New(files ...*File) *Config { return &Config{files: files} }

// Load reads and parses files in this order. It stops at the first one that is missing (NotFound), unreadable or not
// valid (Invalid).
func Load(paths ...string) (*Config, error) {
	c := New()
	for _, path := range paths {
		file, err := readFile(path)
		if err != nil {
			return nil, err
		}
		c.files = append(c.files, file)
	}
	return c, nil
}

func readFile(path string) (*File, error) {
	const op = "config.Load"
	source, err := os.Open(path)
	if os.IsNotExist(err) {
		return nil, fault.New(fault.NotFound, op, "configuration file %s does not exist", path)
	}
	if err != nil {
		return nil, fault.New(fault.Invalid, op, "configuration file cannot be read: %w", err)
	}
	defer source.Close()
	text, err := io.ReadAll(io.LimitReader(source, maxFile+1))
	if err != nil {
		return nil, fault.New(fault.Invalid, op, "configuration file cannot be read: %w", err)
	}
	if len(text) > maxFile {
		return nil, fault.New(fault.Invalid, op, "configuration file %s is longer than %d bytes", path, maxFile)
	}
	return Parse(path, text)
}

// Get returns the value of an option with one value: the last one in the last file that sets it under any of its
// names. In one file the option's own name has precedence over deprecated ones. References are replaced.
func (c *Config) Get(group, option string, deprecated ...Name) (Entry, bool) {
	entry, found := c.find(namesOf(group, option, deprecated))
	if found {
		entry = c.expand(entry, group)
	}
	return entry, found
}

// All returns all values of an option that may have several, in the order of the files and of the lines in a file. A
// file's deprecated names come before the option's own, as in oslo.config. References are replaced.
func (c *Config) All(group, option string, deprecated ...Name) []Entry {
	names := namesOf(group, option, deprecated)
	var all []Entry
	for _, file := range c.files {
		for i := len(names) - 1; i >= 0; i-- {
			for _, entry := range file.Entries {
				if entry.named(names[i]) {
					all = append(all, c.expand(entry, group))
				}
			}
		}
	}
	return all
}

// Unknown returns the entries whose names are not among known, for a warning: a mistyped option would have no effect.
func (c *Config) Unknown(known []Name) []Entry {
	isKnown := make(map[Name]bool, len(known))
	for _, name := range known {
		isKnown[Name{groupKey(name.Group), name.Option}] = true
	}
	var unknown []Entry
	for _, file := range c.files {
		for _, entry := range file.Entries {
			if !isKnown[Name{groupKey(entry.Group), entry.Option}] {
				unknown = append(unknown, entry)
			}
		}
	}
	return unknown
}

// find returns the last entry with one of the names, unchanged.
func (c *Config) find(names []Name) (Entry, bool) {
	for i := len(c.files) - 1; i >= 0; i-- {
		entries := c.files[i].Entries
		for _, name := range names {
			for j := len(entries) - 1; j >= 0; j-- {
				if entries[j].named(name) {
					return entries[j], true
				}
			}
		}
	}
	return Entry{}, false
}

// namesOf returns an option's names with its own first, and completes the deprecated ones.
func namesOf(group, option string, deprecated []Name) []Name {
	names := []Name{{group, option}}
	for _, old := range deprecated {
		if old.Group == "" {
			old.Group = group
		}
		if old.Option == "" {
			old.Option = option
		}
		names = append(names, old)
	}
	return names
}

// groupKey returns a group's name for comparison in lower case, except DEFAULT.
func groupKey(group string) string {
	if group == "DEFAULT" || group == "" {
		return "DEFAULT"
	}
	return strings.ToLower(group)
}
