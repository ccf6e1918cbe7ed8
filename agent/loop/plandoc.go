package loop

import (
	"github.com/openberth/berth/agent/heal"
	"github.com/openberth/berth/api/host"
)

// PlanDoc is a plan as it is printed for programs.
func PlanDoc(p heal.Plan) host.PlanDoc {
	doc := host.PlanDoc{Steps: []host.PlanStep{}, Objections: []host.PlanObjection{}}
	for _, s := range p.Steps {
		doc.Steps = append(doc.Steps, planStep(s))
	}
	for _, o := range p.Objections {
		doc.Objections = append(doc.Objections, host.PlanObjection{Provider: string(o.Provider), Name: o.Name, Class: string(o.Class),
			Consumers: texts(o.Consumers), Message: o.Text})
	}
	return doc
}

func planStep(s heal.Step) host.PlanStep {
	out := host.PlanStep{Op: string(s.Op), Name: s.Name, Provider: string(s.Provider), Parent: string(s.Parent), Detail: s.Change}
	switch s.Op {
	case heal.PutTraits:
		out.Generation, out.Traits = &s.Generation, texts(s.Traits)
	case heal.PutInventories:
		out.Generation, out.Inventories = &s.Generation, map[string]host.PlanInventory{}
		for class, i := range s.Inventories {
			out.Inventories[string(class)] = host.PlanInventory{Total: i.Total, Reserved: i.Reserved, MinUnit: i.MinUnit, MaxUnit: i.MaxUnit,
				StepSize: i.StepSize, AllocationRatio: i.AllocationRatio}
		}
	case heal.DeleteProvider:
		out.Generation = &s.Generation
	}
	return out
}
