package console

import (
	"net/http"
	"net/url"
	"slices"

	"github.com/openberth/berth/api/compute"
	"github.com/openberth/berth/api/host"
	"github.com/openberth/berth/fault"
)

// The changes of a server that the console requests; see actions.
const (
	moveLive   = host.MoveLive
	moveCold   = host.MoveCold
	endConfirm = "confirm"
	endRevert  = "revert"
)

// moveContent is the content of the page of a planned move.
type moveContent struct {
	Server compute.Server
	From   string
	host.PlannedMove
}

// plannedMove shows where a server would move now.
func (c *Console) plannedMove(w http.ResponseWriter, r *http.Request, one *session) error {
	found, err := one.clients.Compute.ServerByID(r.Context(), r.PathValue("server"))
	if err != nil {
		return err
	}
	if one.clients.Hosts == nil {
		return fault.New(fault.NotFound, "Nova does not say where a server would move; use `openstack server migrate`")
	}
	content := moveContent{Server: found}
	if found.Place == nil || found.Hypervisor == nil {
		return fault.New(fault.Conflict, "the server %s has no host, or you may not see it", found.Name)
	}
	content.From = *found.Hypervisor
	if content.PlannedMove, err = one.clients.Hosts.PlanMove(r.Context(), content.From, found.ID); err != nil {
		return err
	}
	p := one.page("Migrate "+found.Name, "servers", nil)
	p.Content = content
	c.render(w, http.StatusOK, "migrate", p)
	return nil
}

// act requests a change of a server: a move to the host that the plan has shown, or the end of one.
func (c *Console) act(w http.ResponseWriter, r *http.Request, one *session) error {
	id, what, to := r.PathValue("server"), r.PostForm.Get("do"), r.PostForm.Get("to")
	action, arguments := "", map[string]any(nil)
	switch what {
	case moveLive:
		action, arguments = "os-migrateLive", map[string]any{"host": to, "block_migration": "auto"}
	case moveCold:
		action, arguments = "migrate", map[string]any{"host": to}
	case endConfirm:
		action = "confirmResize"
	case endRevert:
		action = "revertResize"
	default:
		return fault.New(fault.Invalid, "nothing was changed: the form names no change; load the page again")
	}
	if arguments != nil && to == "" {
		return fault.New(fault.Invalid, "nothing was changed: the form names no host; load the page again")
	}
	err := one.clients.Compute.Act(r.Context(), id, action, arguments)
	c.Log.InfoContext(r.Context(), "change of a server requested", "user", one.user, "server", id, "action", action, "to",
		to, "error", err)
	if err != nil {
		return err
	}
	http.Redirect(w, r, serverPath(id), http.StatusSeeOther)
	return nil
}

// consoleContent is the content of the page that leads to the console of a guest.
type consoleContent struct {
	Server compute.Server
	URL    string
}

// guestConsole requests a console of the guest of a server, and shows its address.
func (c *Console) guestConsole(w http.ResponseWriter, r *http.Request, one *session) error {
	kinds := []string{"vnc", "novnc"}
	if r.PostForm.Get("type") == "serial" {
		kinds = []string{"serial", "serial"}
	}
	found, err := one.clients.Compute.ServerByID(r.Context(), r.PathValue("server"))
	if err != nil {
		return err
	}
	address, err := one.clients.Compute.RemoteConsole(r.Context(), found.ID, kinds[0], kinds[1])
	if err != nil {
		return err
	}
	content := consoleContent{Server: found}
	if content.URL, err = c.Cloud.reached(address, r.Host); err != nil {
		return err
	}
	p := one.page("Console of "+found.Name, "servers", nil)
	p.Content = content
	c.render(w, http.StatusOK, "guest-console", p)
	return nil
}

// reached returns an address of compute as a browser reaches it that has reached the console at a host.
func (c Cloud) reached(address, at string) (string, error) {
	found, err := url.Parse(address)
	if err != nil {
		return "", fault.New(fault.Unavailable, "compute returned no address of a console: %w", err)
	}
	if c.Compute == "" {
		return found.String(), nil
	}
	own, err := url.Parse(c.Compute)
	if err != nil {
		return "", fault.New(fault.Internal, "the address of compute is not valid: %w", err)
	}
	found.Scheme, found.Host = own.Scheme, own.Host
	if slices.Contains([]string{"0.0.0.0", "::"}, own.Hostname()) { // it listens on all addresses
		found.Host = (&url.URL{Host: at}).Hostname()
		if isV6 := len(found.Host) > 0 && slices.Contains([]byte(found.Host), ':'); isV6 {
			found.Host = "[" + found.Host + "]"
		}
		found.Host += ":" + own.Port()
	}
	return found.String(), nil
}
