package consoles

import (
	"fmt"
	"net/http"
	"time"

	"github.com/openberth/berth/api/compute"
	"github.com/openberth/berth/api/host"
	"github.com/openberth/berth/compute/lifecycle"
	"github.com/openberth/berth/compute/policies"
	"github.com/openberth/berth/compute/server/request"
	"github.com/openberth/berth/fault"
)

// diagnosticRoutes returns the path of what the guest of a server uses.
func diagnosticRoutes(s *Handlers) request.Routes {
	return request.Routes{
		"/v2.1/servers/{id}/diagnostics": {http.MethodGet: s.OfServer(policies.ShowDiagnostics, s.diagnostics)},
	}
}

// diagnosticsSince is the version since which diagnostics are the same for all drivers.
const diagnosticsSince compute.Version = 48

// diagnostics is GET /v2.1/servers/{id}/diagnostics: what the guest of a server uses, as its agent answers.
func (s *Handlers) diagnostics(c *request.Call, found lifecycle.Server) error {
	if found.Host == "" {
		return fault.New(fault.Conflict, "Instance %s is not ready", found.ID)
	}
	if found.Actual == lifecycle.Off || found.Actual == lifecycle.Suspended {
		return fault.New(fault.Conflict, "Cannot 'get_diagnostics' instance %s while it is in power state shutdown",
			found.ID)
	}
	out, err := s.ask(c, found, host.ConsoleRequest{Diagnostics: true})
	switch {
	case err != nil:
		return err
	case out.Unsupported:
		return request.NotImplemented("Unable to get diagnostics, functionality not implemented: %s", out.Refused)
	case out.Refused != "" || out.Diagnostics == nil:
		return fault.New(fault.Conflict, "Cannot 'get_diagnostics' instance %s: %s", found.ID, out.Refused)
	case c.Has(diagnosticsSince):
		return c.WriteJSON(http.StatusOK, diagnosticsView(found, *out.Diagnostics, time.Now()))
	}
	return c.WriteJSON(http.StatusOK, olderDiagnostics(*out.Diagnostics))
}

// diagnosticsView returns the diagnostics since 2.48. now is the time of the answer.
func diagnosticsView(s lifecycle.Server, d host.Diagnostics, now time.Time) compute.Diagnostics {
	const kbInMB = 1024
	v := compute.Diagnostics{State: d.State, Driver: d.Driver, Hypervisor: request.OrNull(d.Hypervisor),
		HypervisorOS: "linux", ConfigDrive: d.ConfigDrive, CPUs: len(d.CPUs), Disks: len(d.Disks), NICs: len(d.NICs),
		Memory:     compute.DiagnosedMemory{Maximum: d.MemoryKB / kbInMB, Used: d.UsedKB / kbInMB},
		CPUDetails: []compute.DiagnosedCPU{}, DiskDetails: []compute.DiagnosedDisk{},
		NICDetails: []compute.DiagnosedNIC{}}
	if !s.Launched.IsZero() {
		uptime := int64(now.Sub(s.Launched).Seconds())
		v.Uptime = &uptime
	}
	for _, one := range d.CPUs {
		v.CPUDetails = append(v.CPUDetails, compute.DiagnosedCPU{ID: one.ID, Time: one.Time})
	}
	for _, one := range d.Disks {
		v.DiskDetails = append(v.DiskDetails, compute.DiagnosedDisk{ReadBytes: one.ReadBytes,
			ReadRequests: one.ReadRequests, WriteBytes: one.WriteBytes, WriteRequests: one.WriteRequests, Errors: one.Errors})
	}
	for _, one := range d.NICs {
		v.NICDetails = append(v.NICDetails, compute.DiagnosedNIC{MAC: one.MAC, RXOctets: one.RXOctets,
			RXErrors: one.RXErrors, RXDropped: one.RXDropped, RXPackets: one.RXPackets, TXOctets: one.TXOctets,
			TXErrors: one.TXErrors, TXDropped: one.TXDropped, TXPackets: one.TXPackets})
	}
	return v
}

// olderDiagnostics returns the diagnostics until 2.47, by the names of Nova's driver for libvirt.
func olderDiagnostics(d host.Diagnostics) map[string]int64 {
	v := map[string]int64{"memory": d.MemoryKB}
	for _, one := range d.CPUs {
		v[fmt.Sprintf("cpu%d_time", one.ID)] = one.Time
	}
	for _, one := range d.Disks {
		v[one.Name+"_read"], v[one.Name+"_read_req"] = one.ReadBytes, one.ReadRequests
		v[one.Name+"_write"], v[one.Name+"_write_req"] = one.WriteBytes, one.WriteRequests
		v[one.Name+"_errors"] = one.Errors
	}
	for _, one := range d.NICs {
		v[one.Name+"_rx"], v[one.Name+"_rx_packets"] = one.RXOctets, one.RXPackets
		v[one.Name+"_rx_errors"], v[one.Name+"_rx_drop"] = one.RXErrors, one.RXDropped
		v[one.Name+"_tx"], v[one.Name+"_tx_packets"] = one.TXOctets, one.TXPackets
		v[one.Name+"_tx_errors"], v[one.Name+"_tx_drop"] = one.TXErrors, one.TXDropped
	}
	return v
}
