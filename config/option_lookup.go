package config

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
