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

	"github.com/openberth/berth/fault"
)

// maxFile is the length in bytes of the longest file that Load reads.
const maxFile = 16 << 20

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
	source, err := os.Open(path)
	if os.IsNotExist(err) {
		return nil, fault.New(fault.NotFound, "configuration file %s does not exist", path)
	}
	if err != nil {
		return nil, fault.New(fault.Invalid, "configuration file cannot be read: %w", err)
	}
	defer source.Close()
	text, err := io.ReadAll(io.LimitReader(source, maxFile+1))
	if err != nil {
		return nil, fault.New(fault.Invalid, "configuration file cannot be read: %w", err)
	}
	if len(text) > maxFile {
		return nil, fault.New(fault.Invalid, "configuration file %s is longer than %d bytes", path, maxFile)
	}
	return Parse(path, text)
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
