package config

import (
	"fmt"
	"strings"
	"time"

	"github.com/openberth/berth/fault"
)

// Option is a row of a table of options: the names of one option, its default, and where its value is stored.
type Option struct {
	Name
	Deprecated []Name // older names
	// Default is the value of an option that no file sets, as a file would set it; "" if there is none, or if it depends
	// on something else.
	Default string

	read func(*Config, Option) error // nil: another function reads the value
}

// Options is a table of options.
type Options []Option

// Read stores the value of each option of the table, or its default. It returns one fault for each wrong value; that
// option keeps its default.
func (c *Config) Read(table Options) (wrong []error) {
	for _, o := range table {
		if o.read == nil {
			continue
		}
		if err := o.read(c, o); err != nil {
			wrong = append(wrong, err)
		}
	}
	return wrong
}

// Names returns all names of the options of the table, also the deprecated ones, for Unknown.
func (table Options) Names() (names []Name) {
	for _, o := range table {
		names = append(names, namesOf(o.Group, o.Option, o.Deprecated)...)
	}
	return names
}

// Text is the row of a text: one of choices, or any text without choices.
func Text(group, option string, to *string, def string, choices ...string) Option {
	return row(group, option, def, to, func(c *Config, o Option) (string, error) {
		return c.String(group, option, def, choices, o.Deprecated...)
	})
}

// Flag is the row of a truth value.
func Flag(group, option string, to *bool, def bool) Option {
	return row(group, option, fmt.Sprint(def), to, func(c *Config, o Option) (bool, error) {
		return c.Bool(group, option, def, o.Deprecated...)
	})
}

// Number is the row of a whole number from least to most.
func Number(group, option string, to *int, def, least, most int) Option {
	return row(group, option, fmt.Sprint(def), to, func(c *Config, o Option) (int, error) {
		return c.Int(group, option, def, least, most, o.Deprecated...)
	})
}

// Decimal is the row of a number from least to most.
func Decimal(group, option string, to *float64, def, least, most float64) Option {
	return row(group, option, fmt.Sprint(def), to, func(c *Config, o Option) (float64, error) {
		return c.Float(group, option, def, least, most, o.Deprecated...)
	})
}

// Seconds is the row of a duration, a whole number of seconds from least to most in the file.
func Seconds(group, option string, to *time.Duration, def, least, most int) Option {
	return row(group, option, fmt.Sprint(def), to, func(c *Config, o Option) (time.Duration, error) {
		n, err := c.Int(group, option, def, least, most, o.Deprecated...)
		return time.Duration(n) * time.Second, err
	})
}

// Fractions is the row of a duration, a number of seconds from least to most in the file.
func Fractions(group, option string, to *time.Duration, def, least, most float64) Option {
	return row(group, option, fmt.Sprint(def), to, func(c *Config, o Option) (time.Duration, error) {
		n, err := c.Float(group, option, def, least, most, o.Deprecated...)
		return time.Duration(n * float64(time.Second)), err
	})
}

// List is the row of a list of texts that are separated by commas.
func List(group, option string, to *[]string, def ...string) Option {
	return row(group, option, strings.Join(def, ", "), to, func(c *Config, o Option) ([]string, error) {
		return c.Strings(group, option, def, o.Deprecated...)
	})
}

// Parsed is the row of a value that parse reads from the text of the option; its error is about the text alone. An
// option that no file sets stores nothing.
func Parsed[T any](group, option string, to *T, parse func(text string) (T, error)) Option {
	return Option{Name: Name{group, option}, read: func(c *Config, o Option) error {
		e, set := c.Get(group, option, o.Deprecated...)
		if !set {
			return nil
		}
		if err := e.Check(); err != nil {
			return err
		}
		value, err := parse(e.Value)
		if err != nil {
			return e.Fault("%s", fault.TextOf(err))
		}
		*to = value
		return nil
	}}
}

// ParsedList is Parsed for a list of texts that are separated by commas.
func ParsedList[T any](group, option string, to *T, parse func(list []string) (T, error)) Option {
	return Parsed(group, option, to, func(text string) (T, error) { return parse(elements(text)) })
}

// Elsewhere returns rows of options of a group that other functions read.
func Elsewhere(group string, options ...string) (table Options) {
	for _, option := range options {
		table = append(table, Option{Name: Name{group, option}})
	}
	return table
}

// Listed returns rows of the names of options that other functions read.
func Listed(names []Name) (table Options) {
	for _, name := range names {
		table = append(table, Option{Name: name})
	}
	return table
}

// Formerly returns the row with older names of the option. A name without a group is in the group of the option, and
// one without an option has the name of the option.
func (o Option) Formerly(names ...Name) Option {
	o.Deprecated = names
	return o
}

// row is a row whose value get reads.
func row[T any](group, option, def string, to *T, get func(*Config, Option) (T, error)) Option {
	return Option{Name: Name{group, option}, Default: def, read: func(c *Config, o Option) (err error) {
		*to, err = get(c, o)
		return err
	}}
}
