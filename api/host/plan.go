package host

// PlanDoc is what an agent would change in Placement, as `berth agent plan -o json` prints it. Lists are never null.
type PlanDoc struct {
	Steps      []PlanStep      `json:"steps"`      // in the order in which they are taken
	Objections []PlanObjection `json:"objections"` // what ought to be done and cannot be
	Notes      []string        `json:"notes"`      // what a person should know of it
}

// PlanStock is all that one provider shall have after a reshape.
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
	Generation  *int                     `json:"generation,omitzero"` // of a provider that is written to, as it was seen
	Traits      []string                 `json:"traits,omitzero"`     // all that the provider shall have
	Inventories map[string]PlanInventory `json:"inventories,omitzero"`
	Stocks      map[string]PlanStock     `json:"stocks,omitzero"`      // of a reshape, by provider
	Allocations map[string]PlanShares    `json:"allocations,omitzero"` // of a reshape: all that each consumer shall hold
	Detail      string                   `json:"detail"`               // what is different afterwards, for people
}

// PlanInventory is an inventory in Placement's own words.
type PlanInventory struct {
	Total           int     `json:"total"`
	Reserved        int     `json:"reserved"`
	MinUnit         int     `json:"min_unit"`
	MaxUnit         int     `json:"max_unit"`
	StepSize        int     `json:"step_size"`
	AllocationRatio float64 `json:"allocation_ratio"`
}

// PlanObjection is why something must not be done.
type PlanObjection struct {
	Provider  string   `json:"provider,omitempty"` // UUID
	Name      string   `json:"name,omitempty"`     // of the provider
	Class     string   `json:"resource_class,omitempty"`
	Consumers []string `json:"consumers"` // UUIDs of those who hold it
	Message   string   `json:"message"`
}
