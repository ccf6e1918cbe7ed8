package console

import (
	"net/http"

	"github.com/openberth/berth/console/view"
	"github.com/openberth/berth/fault"
)

// hostContent is the content of the page of a host.
type hostContent struct {
	*view.HostPage
	Columns []view.AmountClass // of who holds what
}

// host shows one host.
func (c *Console) host(w http.ResponseWriter, r *http.Request, one *session) error {
	cloud, stale, err := one.cloud(r)
	if err != nil {
		return err
	}
	name := r.PathValue("host")
	shown := cloud.HostPage(name)
	if shown == nil {
		return fault.New(fault.NotFound, "the cloud has no host %s; the hosts are at /fleet", name)
	}
	if one.clients.Hosts != nil { // reports that are equal are not read again with the cloud
		if report, err := one.clients.Hosts.HostReport(r.Context(), name); err == nil {
			shown.Reported(report.Seen)
		}
	}
	p := one.page(name, "fleet", cloud)
	p.Stale, p.Content = stale, hostContent{shown, cloud.Amounts}
	c.render(w, http.StatusOK, "host", p)
	return nil
}
