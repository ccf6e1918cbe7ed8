package settings

import (
	"cmp"
	"regexp"
	"slices"
	"strings"

	"github.com/openberth/berth/config"
	"github.com/openberth/berth/docs/guide"
)

// agentTable returns the rows of the options that an agent reads.
func (s *Settings) agentTable() config.Options {
	return slices.Concat(s.generalOptions(), s.accountOptions(), s.tlsOptions(), s.deviceOptions(), s.bandwidthOptions(),
		s.bridgeOptions(),
		s.hostOptions(), s.libvirtOptions(), s.powerVMOptions(), s.imageOptions())
}

// Sample returns a configuration file with every option as a comment, with its default and the text of the guide. With
// agent it has those that an agent reads.
func Sample(agent bool) string {
	table := (&Settings{}).table()
	if agent {
		table = (&Settings{}).agentTable()
	}
	items := optionItems(guide.Options)
	places := map[config.Name]int{}
	for _, o := range table {
		places[o.Name] = itemOf(o, items)
	}
	// The order of the guide, because that of the table is not always the same.
	slices.SortFunc(table, func(a, b config.Option) int {
		return cmp.Or(cmp.Compare(places[a.Name], places[b.Name]), strings.Compare(a.Group, b.Group),
			strings.Compare(a.Option, b.Option), strings.Compare(a.Default, b.Default))
	})
	var groups []string
	for _, o := range table {
		if !slices.Contains(groups, o.Group) {
			groups = append(groups, o.Group)
		}
	}
	out := strings.Builder{}
	out.WriteString("# The options of Berth with their defaults, as `berth options` prints them. Remove the # before an " +
		"option to set it.\n")
	for _, group := range groups {
		out.WriteString("\n[" + group + "]\n")
		before, seen := "", map[string]bool{}
		for _, o := range table {
			if o.Group != group || seen[o.Option] { // two parts of the table have the same option of a group
				continue
			}
			seen[o.Option] = true
			if text := textOf(o, items); text != before {
				out.WriteString("\n" + text)
				before = text
			}
			out.WriteString(strings.TrimRight("#"+o.Option+" = "+defaultOf(o), " ") + "\n")
		}
	}
	return out.String()
}

// defaultOf returns the default of an option as a file can set it. The -1 of other options than quotas means
// that they are not set, and is not valid in a file.
func defaultOf(o config.Option) string {
	if o.Default == "-1" && o.Group != "quota" {
		return ""
	}
	return o.Default
}

// itemEnd matches what ends an item of a list: the next one, a heading or an empty line.
var itemEnd = regexp.MustCompile(`\n(- |#|\n)`)

// optionItems returns the items of the guide's list of options.
func optionItems(chapter string) []string {
	list, _, _ := strings.Cut(chapter, "### Origins of web pages")
	var items []string
	for _, item := range strings.Split(list, "\n- ")[1:] {
		if end := itemEnd.FindStringIndex(item); end != nil {
			item = item[:end[0]]
		}
		items = append(items, strings.TrimSpace(item))
	}
	return items
}

// optionWord matches a name of an option in an item, perhaps only its end, such as `_user_id`.
var optionWord = regexp.MustCompile("[` ](_?[a-zA-Z_]+)`")

// names reports whether an item names an option.
func names(item string, o config.Option) bool {
	for _, found := range optionWord.FindAllStringSubmatch(item, -1) {
		if found[1] == o.Option || found[1][0] == '_' && strings.HasSuffix(o.Option, found[1]) {
			return true
		}
	}
	return false
}

// link matches a link of Markdown.
var link = regexp.MustCompile(`\[([^\]]+)\]\([^)]+\)`)

// itemOf returns the index of the item about an option: one that begins with its name, else one that has it, else the
// one about its group, or about the accounts of its group; -1 if there is none.
func itemOf(o config.Option, items []string) int {
	group := func(item string) bool { return strings.Contains(item, "`["+o.Group+"]") }
	for _, fits := range []func(item string) bool{
		func(item string) bool {
			head, _, _ := strings.Cut(item, ": ")
			return group(head) && names(head, o)
		},
		func(item string) bool { return group(item) && names(item, o) },
		func(item string) bool { return strings.HasPrefix(item, "`["+o.Group+"]`") },
		func(item string) bool { return group(item) && strings.Contains(item, "auth_type") },
		func(item string) bool { return group(item) && strings.Contains(item, "account") },
	} {
		if i := slices.IndexFunc(items, fits); i >= 0 {
			return i
		}
	}
	return -1
}

// textOf returns the item about an option as lines of comments; empty if there is none.
func textOf(o config.Option, items []string) string {
	i := itemOf(o, items)
	if i < 0 {
		return ""
	}
	out := strings.Builder{}
	for line := range strings.Lines(link.ReplaceAllString(items[i], "$1")) {
		line = strings.NewReplacer("`", "", `\*`, "*").Replace(strings.TrimSpace(line))
		out.WriteString("# " + line + "\n")
	}
	return out.String()
}
