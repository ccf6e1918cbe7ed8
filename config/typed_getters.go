package config

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
)

// Bool reads 1, yes, on or true as true and 0, no, off or false as false, in any case. It returns def if the option
// is not set.
func (c *Config) Bool(group, option string, def bool, deprecated ...Name) (bool, error) {
	return read(c, Name{group, option}, deprecated, def, func(text string) (bool, string) {
		switch strings.ToLower(text) {
		case "1", "yes", "on", "true":
			return true, ""
		case "0", "no", "off", "false":
			return false, ""
		}
		return false, "is neither true nor false; write true or false (also yes and no, on and off, 1 and 0)"
	})
}

// Int reads a whole number from least to most, both included. It returns def if the option is not set or empty.
func (c *Config) Int(group, option string, def, least, most int, deprecated ...Name) (int, error) {
	return read(c, Name{group, option}, deprecated, def, func(text string) (int, string) {
		text = digits(strings.TrimFunc(text, isSpace))
		if text == "" {
			return def, ""
		}
		number, err := strconv.Atoi(text)
		if err != nil {
			return 0, "is not a whole number; write one " + span(least, most, math.MinInt, math.MaxInt)
		}
		if number < least || number > most {
			return 0, "is out of bounds; write a whole number " + span(least, most, math.MinInt, math.MaxInt)
		}
		return number, ""
	})
}

// Float reads a number from least to most, both included. It returns def if the option is not set or empty. math.Inf
// means no bound; the value itself is always finite.
func (c *Config) Float(group, option string, def, least, most float64, deprecated ...Name) (float64, error) {
	return read(c, Name{group, option}, deprecated, def, func(text string) (float64, string) {
		text = digits(strings.TrimFunc(text, isSpace))
		if text == "" {
			return def, ""
		}
		number, err := strconv.ParseFloat(text, 64)
		if err != nil || strings.ContainsAny(text, "xX") || math.IsInf(number, 0) || math.IsNaN(number) {
			return 0, "is not a number; write one " + span(least, most, math.Inf(-1), math.Inf(1))
		}
		if number < least || number > most {
			return 0, "is out of bounds; write a number " + span(least, most, math.Inf(-1), math.Inf(1))
		}
		return number, ""
	})
}

// String reads a text that is one of choices, or any text without choices. It returns def if the option is not set.
func (c *Config) String(group, option, def string, choices []string, deprecated ...Name) (string, error) {
	return read(c, Name{group, option}, deprecated, def, func(text string) (string, string) {
		if len(choices) > 0 && !slices.Contains(choices, text) {
			return "", "is not a valid choice; write one of " + strings.Join(choices, ", ")
		}
		return text, ""
	})
}

// Strings reads a list of texts separated by commas, without the blanks around each. It returns def if the option is
// not set.
func (c *Config) Strings(group, option string, def []string, deprecated ...Name) ([]string, error) {
	return read(c, Name{group, option}, deprecated, def, func(text string) ([]string, string) {
		return elements(text), ""
	})
}

// elements splits a text at its commas.
func elements(text string) []string {
	text = strings.TrimRight(strings.TrimFunc(text, isSpace), ",")
	if text == "" {
		return nil
	}
	list := strings.Split(text, ",")
	for i := range list {
		list[i] = strings.TrimFunc(list[i], isSpace)
	}
	return list
}

// read finds an option's value and converts it; a problem that convert reports becomes a fault with the value's
// place.
func read[T any](c *Config, name Name, deprecated []Name, def T,
	convert func(string) (T, string)) (T, error) {
	entry, found := c.Get(name.Group, name.Option, deprecated...)
	if !found {
		return def, nil
	}
	if err := entry.Check(); err != nil {
		return def, err
	}
	value, wrong := convert(entry.Value)
	if wrong != "" {
		return def, entry.Fault("%s", wrong)
	}
	return value, nil
}

// digits removes the single underscores that Python allows between two digits of a number.
func digits(text string) string {
	isDigit := func(i int) bool { return i >= 0 && i < len(text) && text[i] >= '0' && text[i] <= '9' }
	var out strings.Builder
	for i := range len(text) {
		if text[i] != '_' || !isDigit(i-1) || !isDigit(i+1) {
			out.WriteByte(text[i])
		}
	}
	return out.String()
}

// span returns the allowed numbers as text; a bound at its extreme is omitted.
func span[T int | float64](least, most, lowest, highest T) string {
	switch {
	case least == lowest && most == highest:
		return "such as 7"
	case most == highest:
		return fmt.Sprintf("of at least %v", least)
	case least == lowest:
		return fmt.Sprintf("of at most %v", most)
	}
	return fmt.Sprintf("from %v to %v", least, most)
}
