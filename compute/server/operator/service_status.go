package operator

import (
	"net/http"
	"unicode/utf8"

	"github.com/openberth/berth/api/compute"
	"github.com/openberth/berth/api/edge"
	"github.com/openberth/berth/compute/server/request"
	"github.com/openberth/berth/fault"
	"github.com/openberth/berth/provider"
)

// maxReason is the length of disabled_reason, as in Nova.
const maxReason = 255

// serviceStatus is the body of the requests that enable or disable a service.
type serviceStatus struct {
	Status *string `json:"status"` // since 2.53
	Reason *string `json:"disabled_reason"`
}

// check returns fault.Invalid for a status or a reason that is not valid.
func (b serviceStatus) check() error {
	switch {
	case b.Status != nil && *b.Status != serviceEnabled && *b.Status != serviceDisabled:
		return fault.New(fault.Invalid, "status is %q; it must be %s or %s", edge.Clip(*b.Status), serviceEnabled,
			serviceDisabled)
	case b.Reason != nil && (b.Status == nil || *b.Status != serviceDisabled):
		return fault.New(fault.Invalid, "Specifying disabled_reason when status is not disabled is not "+
			"allowed; leave it out")
	case b.Reason != nil && (*b.Reason == "" || utf8.RuneCountInString(*b.Reason) > maxReason):
		return fault.New(fault.Invalid, "disabled_reason must have 1 to %d characters", maxReason)
	}
	return nil
}

// changeStatus disables or enables the host of a service; without a status it does nothing.
func (s *Handlers) changeStatus(c *request.Call, name string, b serviceStatus) error {
	if b.Status == nil {
		return nil
	}
	var err error
	if *b.Status == serviceEnabled {
		err = s.Store.EnableHost(c.R.Context(), name)
	} else {
		reason := ""
		if b.Reason != nil {
			reason = *b.Reason
		}
		err = s.Store.DisableHost(c.R.Context(), name, reason, s.Now())
	}
	if err != nil {
		return s.UnknownHost(c.R.Context(), name, err)
	}
	return nil
}

func (s *Handlers) enableService(c *request.Call) error {
	return s.changeByName(c, serviceEnabled, false)
}

func (s *Handlers) disableService(c *request.Call) error {
	return s.changeByName(c, serviceDisabled, false)
}

func (s *Handlers) disableServiceWithReason(c *request.Call) error {
	return s.changeByName(c, serviceDisabled, true)
}

// changeByName enables or disables the service that the body names.
func (s *Handlers) changeByName(c *request.Call, status string, withReason bool) error {
	var body struct {
		Host, Binary string
		Reason       *string `json:"disabled_reason"`
	}
	if err := c.ReadStrict(&body); err != nil {
		return err
	}
	if body.Host == "" || body.Binary == "" || withReason != (body.Reason != nil) {
		return fault.New(fault.Invalid, "the body must have host and binary (%s), and only disable-log-reason has "+
			"disabled_reason", compute.Binary)
	}
	if body.Binary != compute.Binary {
		return onlyHosts(body.Binary)
	}
	if err := provider.CheckHostName(body.Host); err != nil {
		return err
	}
	change := serviceStatus{Status: &status, Reason: body.Reason}
	if err := change.check(); err != nil {
		return err
	}
	if err := s.changeStatus(c, body.Host, change); err != nil {
		return err
	}
	doc := compute.ServiceStatus{Binary: compute.Binary, Host: body.Host, Status: status, Reason: body.Reason}
	return c.WriteJSON(http.StatusOK, map[string]any{"service": doc})
}
