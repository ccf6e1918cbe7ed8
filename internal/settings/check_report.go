package settings

// CheckReport is the result of checking a configuration on a machine.
type CheckReport struct {
	Host     string          `json:"host"`
	Sysfs    string          `json:"sysfs"`
	Report   bool            `json:"report_in_placement"`
	Findings []Finding       `json:"findings"`
	Devices  []CheckedDevice `json:"devices"` // all devices of the machine, sorted by address
	// providers for guaranteed bandwidth and packet rate, parents first
	Bandwidth []CheckedProvider `json:"bandwidth"`
	// physical I/O slots of a PowerVM host, by index; then there are no devices
	Slots []CheckedSlot `json:"io_slots,omitempty"`
}

// The levels of a Finding. With an error the agent does not start, or does not report a device. What has the level info
// is not wrong on each host.
const (
	LevelInfo    = "info"
	LevelError   = "error"
	LevelWarning = "warning"
)

func (c *CheckReport) add(level, sentence string) {
	c.Findings = append(c.Findings, Finding{level, sentence})
}

// CheckedProvider is how the agent would report one provider for guaranteed bandwidth or packet rate.
type CheckedProvider struct {
	Name        string         `json:"name"`
	UUID        string         `json:"uuid"`
	Root        string         `json:"root"`        // name of the root provider
	Inventories map[string]int `json:"inventories"` // totals by resource class
	Traits      []string       `json:"traits"`
	Why         string         `json:"why,omitempty"` // why it is not reported
}

// CheckedDevice is how the agent would report one device.
type CheckedDevice struct {
	Address       string   `json:"address"`
	VendorID      string   `json:"vendor_id"`
	ProductID     string   `json:"product_id"`
	Type          string   `json:"dev_type"`
	Parent        string   `json:"parent,omitempty"`
	NUMANode      int      `json:"numa_node"` // -1: unknown
	Entry         string   `json:"entry,omitempty"`
	Provider      string   `json:"provider,omitempty"` // name of the resource provider
	ResourceClass string   `json:"resource_class,omitempty"`
	Traits        []string `json:"traits,omitempty"`
	Offered       bool     `json:"offered"`
	Reported      bool     `json:"reported"`
	Why           string   `json:"why,omitempty"` // why the device is not reported
}

// CheckedSlot is how the agent would report one I/O slot.
type CheckedSlot struct {
	Index         string            `json:"drc_index"`
	Description   string            `json:"description"`
	Properties    map[string]string `json:"identification"` // in the form of the inventory file
	Owner         string            `json:"owner"`
	BusGrouping   bool              `json:"bus_grouping_required"`
	Paragraph     string            `json:"paragraph,omitempty"` // that allows the slot
	Provider      string            `json:"provider,omitempty"`
	ResourceClass string            `json:"resource_class,omitempty"`
	Traits        []string          `json:"traits,omitempty"`
	Why           string            `json:"why,omitempty"` // why the slot is not offered, or reserved
}

// Finding is an error, a warning or information about a configuration on a machine.
type Finding struct {
	Level    string `json:"level"`
	Sentence string `json:"sentence"`
}
