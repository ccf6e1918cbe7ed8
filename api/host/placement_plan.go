package host

// PlanDoc lists the changes that an agent would make in Placement, as `berth agent plan -o json` prints them. Lists are
// never null.
type PlanDoc struct {
	Steps      []PlanStep      `json:"steps"`      // in the order of execution
	Objections []PlanObjection `json:"objections"` // changes that are needed and cannot be made
	Notes      []string        `json:"notes"`      // remarks for the operator
}

// PlanStock is the inventory of one provider after a reshape.
type PlanStock struct {
	Generation  int                      `json:"generation"`
	Inventories map[string]PlanInventory `json:"inventories"`
}

// PlanShares are amounts by provider and class.
type PlanShares map[string]map[string]int

// PlanStep is one call to Placement.
type PlanStep struct {
	Op          string                   `json:"op"`                  // such as "create provider"
	Name        string                   `json:"name"`                // of the class, the trait or the provider
	Provider    string                   `json:"provider,omitempty"`  // UUID; not for classes and traits
	Parent      string                   `json:"parent,omitempty"`    // UUID, of a provider that is created below another
	Generation  *int                     `json:"generation,omitzero"` // that the change expects of the provider
	Traits      []string                 `json:"traits,omitzero"`     // all traits of the provider afterwards
	Inventories map[string]PlanInventory `json:"inventories,omitzero"`
	Stocks      map[string]PlanStock     `json:"stocks,omitzero"`      // of a reshape, by provider
	Allocations map[string]PlanShares    `json:"allocations,omitzero"` // of a reshape: the allocation of each consumer
	Detail      string                   `json:"detail"`               // the change as a sentence
}

// PlanInventory is an inventory in the fields of the Placement API.
type PlanInventory struct {
	Total           int     `json:"total"`
	Reserved        int     `json:"reserved"`
	MinUnit         int     `json:"min_unit"`
	MaxUnit         int     `json:"max_unit"`
	StepSize        int     `json:"step_size"`
	AllocationRatio float64 `json:"allocation_ratio"`
}

// PlanObjection is the reason why a change must not be made.
type PlanObjection struct {
	Provider  string   `json:"provider,omitempty"` // UUID
	Name      string   `json:"name,omitempty"`     // of the provider
	Class     string   `json:"resource_class,omitempty"`
	Consumers []string `json:"consumers"` // UUIDs of the consumers that use it
	Message   string   `json:"message"`
}
