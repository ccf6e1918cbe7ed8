package loop

import (
	"github.com/openberth/berth/agent/treeplan"
	"github.com/openberth/berth/api/host"
	"github.com/openberth/berth/resource"
)

// PlanDoc converts a plan to its JSON document.
func PlanDoc(p treeplan.Plan) host.PlanDoc {
	doc := host.PlanDoc{Steps: []host.PlanStep{}, Objections: []host.PlanObjection{},
		Notes: append([]string{}, p.Notes...)}
	for _, s := range p.Steps {
		doc.Steps = append(doc.Steps, planStep(s))
	}
	for _, o := range p.Objections {
		doc.Objections = append(doc.Objections, host.PlanObjection{Provider: string(o.Provider), Name: o.Name,
			Class: string(o.Class), Consumers: host.Strings(o.Consumers), Message: o.Text})
	}
	return doc
}

func planStep(s treeplan.Step) host.PlanStep {
	out := host.PlanStep{Op: string(s.Op), Name: s.Name, Provider: string(s.Provider), Parent: string(s.Parent),
		Detail: s.Change}
	switch s.Op {
	case treeplan.PutTraits:
		out.Generation, out.Traits = &s.Generation, host.Strings(s.Traits)
	case treeplan.PutInventories:
		out.Generation, out.Inventories = &s.Generation, planInventories(s.Inventories)
	case treeplan.Reshape:
		out.Stocks, out.Allocations = map[string]host.PlanStock{}, map[string]host.PlanShares{}
		for id, stock := range s.InventorySets {
			out.Stocks[string(id)] = host.PlanStock{Generation: stock.Generation,
				Inventories: planInventories(stock.Inventories)}
		}
		for consumer, a := range s.Allocations {
			shares := host.PlanShares{}
			for id, amounts := range a {
				shares[string(id)] = map[string]int{}
				for class, n := range amounts {
					shares[string(id)][string(class)] = n
				}
			}
			out.Allocations[string(consumer)] = shares
		}
	case treeplan.DeleteProvider:
		out.Generation = &s.Generation
	}
	return out
}

func planInventories(list map[resource.Class]resource.Inventory) map[string]host.PlanInventory {
	out := map[string]host.PlanInventory{}
	for class, i := range list {
		out[string(class)] = host.PlanInventory{Total: i.Total, Reserved: i.Reserved, MinUnit: i.MinUnit, MaxUnit: i.MaxUnit,
			StepSize: i.StepSize, AllocationRatio: i.AllocationRatio}
	}
	return out
}
