package host

import (
	"context"
	"net/http"
	"time"

	"github.com/openberth/berth/pci"
)

// DisabledDevice is a device that is out of service: it is given to no further server, and its holder keeps it. A PF is
// disabled with all its VFs. An agent keeps what a line names until another line of its cloud names it in
// EnableDevices, or until Until. A line that lacks it means nothing.
type DisabledDevice struct {
	ID      string    `json:"id"` // random; another time is another id
	Address string    `json:"address"`
	Reason  string    `json:"reason"`
	Since   time.Time `json:"since"`
	Until   time.Time `json:"until,omitzero"` // absent: until it is enabled
	// Check: the health check of the agent has found it. False: an operator has disabled the device.
	Check bool `json:"check,omitempty"`
	// Requested: the agent has not reported it yet. Set by compute.
	Requested bool `json:"requested,omitempty"`
	// Lifted: an operator has enabled the device, and the agent has not answered yet. Set by compute.
	Lifted bool `json:"lifted,omitempty"`
}

// EnableDevice is a request of an operator to enable a device. The agent ends the disablement with this ID, if it has
// one. It also releases what Placement has as reserved on the provider of the device, beside devices that stay
// disabled: a lost journal or a restored Placement may have left it.
type EnableDevice struct {
	ID      string `json:"id"`
	Address string `json:"address"`
}

// DisableDevice is the request to disable a device.
type DisableDevice struct {
	Reason string    `json:"reason"`         // not empty, on one line, at most MaxReason bytes
	Until  time.Time `json:"until,omitzero"` // absent: until it is enabled
}

// MaxReason is the maximum length of the reason for which a device is disabled, in bytes.
const MaxReason = 1000

// WriteDisabled returns a disablement in the type of the contract. DisabledDevice.Read is the inverse.
func WriteDisabled(d pci.Disablement) DisabledDevice {
	return DisabledDevice{ID: d.ID, Address: d.Address.String(), Reason: d.Reason, Since: d.Since, Until: d.Until,
		Check: d.Check}
}

// Read converts a disablement. It returns fault.Invalid for an address that is not valid.
func (d DisabledDevice) Read() (pci.Disablement, error) {
	at, err := pci.ParseAddress(d.Address)
	return pci.Disablement{ID: d.ID, Address: at, Reason: d.Reason, Since: d.Since, Until: d.Until, Check: d.Check}, err
}

// DisableDevice disables a device, or all VFs of a PF, and returns the record. It replaces an earlier disablement by an
// operator. It returns NotFound if the host offers no such device, and Invalid if the request is not valid.
func (c Client) DisableDevice(ctx context.Context, host, address string, want DisableDevice) (DisabledDevice, error) {
	var out DisabledDevice
	_, err := c.REST.Do(ctx, http.MethodPut, path(host, "devices", address, "disabled"), want, &out)
	return out, err
}

// EnableDevice reverses DisableDevice. A device that its agent has disabled stays disabled until it has passed the
// health check. A device that is not disabled is not an error. It returns NotFound if the host offers no such device,
// and Conflict if only its PF is disabled.
func (c Client) EnableDevice(ctx context.Context, host, address string) error {
	_, err := c.REST.Do(ctx, http.MethodDelete, path(host, "devices", address, "disabled"), nil, nil)
	return err
}
