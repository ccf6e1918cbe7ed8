package treeplan

import (
	"fmt"
	"strings"

	"github.com/openberth/berth/provider"
	"github.com/openberth/berth/resource"
)

type planner struct {
	aim       Aim
	actual    provider.Tree
	uses      Uses
	owned     OwnedSet
	ids       map[provider.ID]provider.ID                           // id in the aim → id in Placement
	known     map[string]bool                                       // custom classes and traits that certainly exist
	nameSteps []Step                                                // steps that create custom classes and traits
	deleted   []provider.ID                                         // planned to be deleted
	planned   map[provider.ID]map[resource.Class]resource.Inventory // planned inventories of each provider
	observed  map[provider.ID]provider.Provider                     // providers of the aim, as they are now or are created
	numa      numaMove                                              // between the root and the providers of nodes
	waits     bool                                                  // it cannot be made yet
	plan      Plan
}

func (m *planner) nameOf(id provider.ID) string {
	if p, ok := m.actual.ByID(id); ok {
		return p.Name
	}
	for _, s := range m.plan.Steps {
		if s.Op == CreateProvider && s.Provider == id {
			return s.Name
		}
	}
	return string(id)
}

// holders lists the consumers of a class of a provider, in order, and the sum of their amounts.
func (m *planner) holders(id provider.ID, class resource.Class) (consumers []resource.ConsumerID, used int) {
	return m.uses.holders(id, class)
}

func (m *planner) addNote(format string, args ...any) {
	m.plan.Notes = append(m.plan.Notes, fmt.Sprintf(format, args...))
}

func (m *planner) addObjection(p provider.Provider, class resource.Class, holders []resource.ConsumerID, why string) {
	m.plan.Objections = append(m.plan.Objections, Objection{Provider: p.ID, Name: p.Name, Class: class, Consumers: holders,
		Text: fmt.Sprintf("%s keeps its %s: %s, but %s", p.Name, class, why, heldBy(holders))})
}

// planName plans the creation of a custom class or trait, unless the tree already uses it.
func (m *planner) planName(op Op, name string) {
	if m.known[name] || !strings.HasPrefix(name, "CUSTOM_") {
		return
	}
	m.known[name] = true
	m.nameSteps = append(m.nameSteps, Step{Op: op, Name: name})
}
