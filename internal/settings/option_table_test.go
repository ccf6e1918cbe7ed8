package settings

import (
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/openberth/berth/api/identity"
	"github.com/openberth/berth/config"
	"github.com/openberth/berth/policy"
)

// TestGuideListsOptions: the guide has an item with each option and its default, and no option that Berth does not
// read. Options of OpenStack's libraries are listed there by their groups.
func TestGuideListsOptions(t *testing.T) {
	text, err := os.ReadFile("../../docs/guide/options.md")
	if err != nil {
		t.Fatal(err)
	}
	list, _, _ := strings.Cut(string(text), "### Origins of web pages")
	items := optionItems(string(text))
	groups := slices.Concat(identity.KnownKeystone(), identity.KnownCalls(placementGroup),
		identity.KnownCalls(computeGroup), identity.KnownCalls(neutronGroup), identity.KnownCalls(imageGroup),
		identity.KnownCalls(limitGroup), policy.Known())
	table := (&Settings{}).table()
	for _, o := range table {
		if slices.Contains(groups, o.Name) || o.Group == "cors" {
			continue
		}
		i := slices.IndexFunc(items, func(item string) bool {
			return strings.Contains(item, "`["+o.Group+"]") && names(item, o)
		})
		if i < 0 {
			t.Errorf("docs/guide/options.md does not list [%s] %s", o.Group, o.Option)
		} else if unset := o.Default == "-1" || o.Default == "0"; o.Default != "" && !unset &&
			!strings.Contains(strings.ReplaceAll(items[i], `\*`, "*"), o.Default) {
			t.Errorf("docs/guide/options.md: the default of [%s] %s is %s", o.Group, o.Option, o.Default)
		}
	}
	known := table.Names()
	for _, found := range regexp.MustCompile("`\\[([a-zA-Z0-9_]+)\\] ([a-z_]+)").FindAllStringSubmatch(list, -1) {
		if !slices.Contains(known, config.Name{Group: found[1], Option: found[2]}) {
			t.Errorf("docs/guide/options.md lists [%s] %s, which Berth does not read", found[1], found[2])
		}
	}
}
