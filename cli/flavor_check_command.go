package cli

import (
	"cmp"
	"context"
	"fmt"
	"net/http"

	"github.com/openberth/berth/api/compute"
	"github.com/openberth/berth/fault"
	"github.com/openberth/berth/provider"
	"github.com/openberth/berth/resource"
)

// FlavorCheckCmd checks the requests for resources and devices of flavors.
type FlavorCheckCmd struct {
	Flavors  []string          `arg:"" optional:"" name:"flavor" help:"Names or ids. Default: all flavors."`
	Property map[string]string `help:"Check these extra specs instead of those of a flavor, such as resources1:CUSTOM_GPU=1; may be repeated." placeholder:"KEY=VALUE" mapsep:"none"`
}

// checkedFlavor is the result for one flavor.
type checkedFlavor struct {
	Flavor   string   `json:"flavor"`
	Findings []string `json:"findings"`
	Hosts    *int     `json:"hosts"`          // that could have such a server now; null: the request is not valid
	Note     string   `json:"note,omitempty"` // about hosts
}

// Validate refuses extra specs together with flavors.
func (c *FlavorCheckCmd) Validate() error {
	if len(c.Property) > 0 && len(c.Flavors) > 0 {
		return fault.New(fault.Invalid, "give flavors or --property, not both")
	}
	return nil
}

// Run prints the findings and the number of hosts for each flavor. It fails if there is a finding.
func (c *FlavorCheckCmd) Run(g *Globals) error {
	ctx, cancel := g.context()
	defer cancel()
	list, err := c.flavors(ctx, g)
	if err != nil {
		return err
	}
	known, err := readKnown(ctx, g)
	if err != nil {
		return err
	}
	results, rows, total := []checkedFlavor{}, [][]string{}, 0
	for _, f := range list {
		r := checkedFlavor{Flavor: f.Name, Findings: append([]string{}, lintSpecs(f.ExtraSpecs)...)}
		r.Findings = append(r.Findings, known.missing(f.ExtraSpecs)...)
		refusal := ""
		if r.Hosts, r.Note, refusal, err = hostsFor(ctx, g, f); err != nil {
			return err
		}
		if refusal != "" && len(r.Findings) == 0 { // else a finding says why
			r.Findings = append(r.Findings, refusal)
		}
		hosts := "-"
		if r.Hosts != nil {
			hosts = fmt.Sprint(*r.Hosts)
		}
		if total += len(r.Findings); len(r.Findings) == 0 {
			rows = append(rows, []string{f.Name, hosts, dash(r.Note)})
		}
		for _, finding := range r.Findings {
			rows = append(rows, []string{f.Name, hosts, finding})
		}
		results = append(results, r)
	}
	if err := g.print(results, []string{"Flavor", "Hosts", "Finding"}, rows); err != nil {
		return err
	}
	if total > 0 {
		return fault.New(fault.Invalid, "findings in flavors: %d", total)
	}
	return nil
}

// flavors returns the flavors to check.
func (c *FlavorCheckCmd) flavors(ctx context.Context, g *Globals) ([]compute.Flavor, error) {
	if len(c.Property) > 0 {
		return []compute.Flavor{{Name: "-", ExtraSpecs: c.Property}}, nil
	}
	return flavorsNamed(ctx, g.compute(), c.Flavors)
}

// flavorsNamed returns flavors by their names or ids; all without names.
func flavorsNamed(ctx context.Context, client *compute.Client, names []string) ([]compute.Flavor, error) {
	if len(names) == 0 {
		return client.Flavors(ctx)
	}
	var list []compute.Flavor
	for _, name := range names {
		f, err := client.Flavor(ctx, name)
		if err != nil {
			return nil, err
		}
		list = append(list, f)
	}
	return list, nil
}

// knownNames are the classes and traits that Placement has.
type knownNames struct{ classes, traits map[string]bool }

// readKnown reads the classes and traits that Placement has.
func readKnown(ctx context.Context, g *Globals) (known knownNames, err error) {
	var classes struct {
		List []struct {
			Name string `json:"name"`
		} `json:"resource_classes"`
	}
	var traits struct {
		List []string `json:"traits"`
	}
	client := g.placement().REST
	if _, err = client.Do(ctx, http.MethodGet, "/resource_classes", nil, &classes); err == nil {
		_, err = client.Do(ctx, http.MethodGet, "/traits", nil, &traits)
	}
	known = knownNames{map[string]bool{}, map[string]bool{}}
	for _, class := range classes.List {
		known.classes[class.Name] = true
	}
	for _, trait := range traits.List {
		known.traits[trait] = true
	}
	return known, err
}

// missing returns a sentence about each class and trait of extra specs that Placement does not have: no host offers it.
func (k knownNames) missing(specs map[string]string) (findings []string) {
	for _, key := range sortedKeys(specs) {
		s, ok := parseSpec(key)
		switch {
		case !ok:
		case s.kind == "resources" && !k.classes[s.name]:
			findings = append(findings, fmt.Sprintf("%s: Placement has no resource class %s, so no host offers it%s", key,
				s.name, similar(s.name, k.classes)))
		case s.kind == "trait" && !k.traits[s.name]:
			findings = append(findings, fmt.Sprintf("%s: Placement has no trait %s, so no host has it%s", key, s.name,
				similar(s.name, k.traits)))
		}
	}
	return findings
}

// similar ends a finding about an unknown name with the similar known ones, if there are any.
func similar(name string, known map[string]bool) string {
	if hint := fault.DidYouMean(name, sortedKeys(known), ""); hint != "" {
		return "; " + hint
	}
	return ""
}

// mostCandidates limits the answer of Placement for one flavor.
const mostCandidates = 1000

// hostsFor returns how many hosts could have a server of a flavor now; nil with the refusal if the request is not
// valid. Compute counts them with the filters of the scheduler. Of extra specs without a flavor only what Placement
// counts is considered.
func hostsFor(ctx context.Context, g *Globals, f compute.Flavor) (hosts *int, note, refusal string, err error) {
	if f.ID == "" {
		return candidateHosts(ctx, g, f)
	}
	found, err := g.hosts().Headroom(ctx, f.ID, nil)
	if fault.Is(err, fault.Invalid) {
		return nil, "", fault.TextOf(err), nil
	}
	if err != nil {
		return nil, "", "", err
	}
	n := 0
	for _, h := range found.ByHost {
		if h.Fits > 0 {
			n++
		}
		if note == "" && h.Excluded != "" {
			note = h.Host + ": " + h.Excluded
		}
	}
	if n > 0 {
		note = ""
	}
	return &n, cmp.Or(found.Reason, note), "", nil
}

// candidateHosts returns how many hosts are in Placement's answer for extra specs. The devices of aliases and NUMA
// nodes are left out, because only compute knows them.
func candidateHosts(ctx context.Context, g *Globals, f compute.Flavor) (hosts *int, note, refusal string, err error) {
	ask, ok := askOf(f)
	if !ok {
		return nil, "", "the extra specs are not a valid request", nil
	}
	if len(ask.Groups) == 0 {
		return nil, "it requests nothing of Placement", "", nil
	}
	ask.Limit = mostCandidates
	found, err := g.placement().Candidates(ctx, ask)
	if fault.Is(err, fault.Invalid) {
		return nil, "", fault.TextOf(err), nil
	}
	if err != nil {
		return nil, "", "", err
	}
	roots := map[provider.ID]bool{}
	for _, one := range found.List {
		for id := range one.Allocation {
			roots[found.Summaries[id].Root] = true
		}
	}
	n := len(roots)
	switch {
	case n == 0:
		note = found.Reason
	case len(found.List) == mostCandidates:
		note = "at least"
	case f.ExtraSpecs["pci_passthrough:alias"] != "":
		note = "without the devices of its aliases"
	}
	return &n, note, "", nil
}

// askOf returns the request of a flavor to Placement, without devices of aliases; ok is false if it is not valid.
func askOf(f compute.Flavor) (ask resource.Ask, ok bool) {
	groups := map[string]*resource.Group{"": {Resources: resource.Amounts{}}}
	named := map[resource.Class]bool{}
	for _, key := range sortedKeys(f.ExtraSpecs) {
		s, isGroup := parseSpec(key)
		if !isGroup {
			continue
		}
		if groups[s.suffix] == nil {
			groups[s.suffix] = &resource.Group{Suffix: s.suffix, Resources: resource.Amounts{}}
		}
		if !s.addTo(groups[s.suffix], f.ExtraSpecs[key]) {
			return ask, false
		}
		if s.kind == "resources" {
			named[resource.Class(s.name)] = true
		}
	}
	for class, n := range map[resource.Class]int{"VCPU": f.VCPUs, "MEMORY_MB": f.RAM, "DISK_GB": f.Disk + f.Ephemeral +
		(int(f.Swap)+1023)/1024} {
		if n > 0 && !named[class] {
			groups[""].Resources[class] = n
		}
	}
	for _, suffix := range sortedKeys(groups) {
		g := groups[suffix]
		if len(g.Resources) == 0 && suffix != "" {
			return ask, false
		}
		if len(g.Resources) > 0 {
			ask.Groups = append(ask.Groups, *g)
		}
	}
	ask.GroupPolicy = resource.Policy(f.ExtraSpecs["group_policy"])
	if ask.GroupPolicy == "" && ask.Suffixed() > 1 {
		ask.GroupPolicy = resource.PolicyNone
	}
	return ask, true
}
