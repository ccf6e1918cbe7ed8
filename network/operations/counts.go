package operations

import (
	"context"

	"github.com/openberth/berth/network/binding"
	"github.com/openberth/berth/network/store"
)

// Counts is how many ports and agents there are.
type Counts struct {
	Ports  map[PortKind]int
	Agents map[AgentKind]int
}

// PortKind is what ports are counted by. Binding is bound, unbound or binding_failed.
type PortKind struct{ VNICType, Binding string }

// AgentKind is what agents are counted by.
type AgentKind struct {
	Type   string
	Silent bool
}

// Count counts all ports and agents of a service.
func Count(ctx context.Context, s *Service) (c Counts, err error) {
	err = s.Store.Read(ctx, func(tx *store.Tx) error {
		c = Counts{Ports: map[PortKind]int{}, Agents: map[AgentKind]int{}}
		ports, err := store.List[store.Port](ctx, tx, store.Filter{})
		if err != nil {
			return err
		}
		for _, p := range ports {
			of := PortKind{p.Binding.VNIC, p.Binding.VIF}
			if of.Binding != binding.Unbound && of.Binding != binding.Failed {
				of.Binding = "bound"
			}
			c.Ports[of]++
		}
		agents, err := store.List[store.Agent](ctx, tx, store.Filter{})
		for _, a := range agents {
			c.Agents[AgentKind{a.Type, s.agents.silent(a, s.Now())}]++
		}
		return err
	})
	return c, err
}
