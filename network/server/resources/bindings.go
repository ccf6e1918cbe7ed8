package resources

import (
	"net/http"
	"slices"

	"github.com/openberth/berth/api/edge"
	"github.com/openberth/berth/fault"
	"github.com/openberth/berth/network/binding"
	"github.com/openberth/berth/network/operations"
	"github.com/openberth/berth/network/server/request"
	"github.com/openberth/berth/network/store"
)

func (s handlers) onBindings() operations.Bindings { return operations.Bindings{Service: s.Ops} }

// bindings has the handlers of the bindings of a port (extension binding-extended).
type bindings struct{ handlers }

func (b bindings) routes() []edge.Route[*request.Call] {
	const path = "/v2.0/ports/{port}/bindings"
	return []edge.Route[*request.Call]{
		{Path: path, Methods: request.Methods{http.MethodGet: {Handle: b.list}, http.MethodPost: {Handle: b.create}}},
		{Path: path + "/{host}", Methods: request.Methods{http.MethodGet: {Handle: b.show},
			http.MethodPut:    {Handle: b.update},
			http.MethodDelete: {Handle: b.remove}}},
		{Path: path + "/{host}/activate", Methods: request.Methods{http.MethodPut: {Handle: b.activate}}},
	}
}

// authorize checks a policy rule for the port in the path, which the caller must see.
func (b bindings) authorize(c *request.Call, rule string) error {
	d, err := b.ports().Named().Read(c, c.R.PathValue("port"))
	if err != nil {
		return err
	}
	return c.Authorize(rule, d.Target)
}

// port returns the port in the path, which the caller must see, and checks a policy rule.
func (b bindings) port(c *request.Call, rule string) (p store.Port, err error) {
	if err := b.authorize(c, rule); err != nil {
		return p, err
	}
	return operations.Get[store.Port](c.R.Context(), b.Ops, c.R.PathValue("port"))
}

// views returns the bindings of a port, the active one first.
func (b bindings) views(c *request.Call, p store.Port) ([]map[string]any, error) {
	n, err := operations.Get[store.Network](c.R.Context(), b.Ops, p.Network)
	var all []map[string]any
	if p.Binding.Host != "" {
		all = append(all, bindingView(p, n, p.Binding))
	}
	for _, one := range p.Inactive {
		all = append(all, bindingView(p, n, one.Binding))
	}
	return all, err
}

// bindingView returns a binding of a port as the API shows it.
func bindingView(p store.Port, n store.Network, b store.Binding) map[string]any {
	status := "INACTIVE"
	if b.Host == p.Binding.Host {
		status = "ACTIVE"
	}
	profile := b.Profile
	if profile == nil {
		profile = map[string]any{}
	}
	p.Binding = b
	return map[string]any{"host": b.Host, "vnic_type": b.VNIC, "vif_type": b.VIF, "profile": profile, "status": status,
		"vif_details": vifDetails(p, n), "project_id": p.Project}
}

func (b bindings) list(c *request.Call) error {
	p, err := b.port(c, "get_port_binding")
	if err != nil {
		return err
	}
	all, err := b.views(c, p)
	if err != nil {
		return err
	}
	q, list := c.R.URL.Query(), []map[string]any{}
	for _, view := range all {
		if request.Matches(view, q) {
			list = append(list, request.Selected(view, q["fields"]))
		}
	}
	return c.WriteJSON(http.StatusOK, map[string]any{"bindings": list})
}

func (b bindings) show(c *request.Call) error {
	p, err := b.port(c, "get_port_binding")
	if err != nil {
		return err
	}
	return b.write(c, http.StatusOK, p, c.R.PathValue("host"))
}

// write writes the binding of a port to a host.
func (b bindings) write(c *request.Call, status int, p store.Port, host string) error {
	all, err := b.views(c, p)
	if err != nil {
		return err
	}
	at := slices.IndexFunc(all, func(view map[string]any) bool { return view["host"] == host })
	if at < 0 {
		return fault.New(fault.NotFound, "Binding for port %s on host %s could not be found.", p.ID, host).
			WithCode("PortBindingNotFound")
	}
	return c.WriteJSON(status, map[string]any{"binding": request.Selected(all[at], c.R.URL.Query()["fields"])})
}

// readBinding decodes the attributes that creates and updates of bindings have in common.
func readBinding(o *edge.Object, to *store.Binding) {
	o.Word("vnic_type", &to.VNIC, binding.VNICTypes()...)
	if to.VNIC == "" {
		to.VNIC = "normal"
	}
	if o.Has("profile") {
		to.Profile = nil
		o.Decode("profile", &to.Profile, "an object")
	}
	o.Ignore("project_id", "tenant_id")
}

func (b bindings) create(c *request.Call) error {
	o, _, err := c.Object("binding")
	if err != nil {
		return err
	}
	if err := b.authorize(c, "create_port_binding"); err != nil {
		return err
	}
	var to store.Binding
	o.Text("host", &to.Host, 255)
	readBinding(o, &to)
	if to.Host == "" {
		o.Invalid("host", "the host is missing")
	}
	if err := o.Finish(); err != nil {
		return err
	}
	p, err := b.onBindings().Add(c.R.Context(), c.R.PathValue("port"), to)
	if err != nil {
		return err
	}
	return b.write(c, http.StatusCreated, p, to.Host)
}

func (b bindings) update(c *request.Call) error {
	o, _, err := c.Object("binding")
	if err != nil {
		return err
	}
	if err := b.authorize(c, "update_port_binding"); err != nil {
		return err
	}
	host := c.R.PathValue("host")
	p, err := b.onBindings().Update(c.R.Context(), c.R.PathValue("port"), host, func(to *store.Binding) error {
		o := o.Copy()
		readBinding(o, to)
		return o.Finish()
	})
	if err != nil {
		return err
	}
	return b.write(c, http.StatusOK, p, host)
}

func (b bindings) activate(c *request.Call) error {
	if err := b.authorize(c, "activate"); err != nil {
		return err
	}
	p, err := b.onBindings().Activate(c.R.Context(), c.R.PathValue("port"), c.R.PathValue("host"))
	if err != nil {
		return err
	}
	return b.write(c, http.StatusOK, p, c.R.PathValue("host"))
}

func (b bindings) remove(c *request.Call) error {
	if err := b.authorize(c, "delete_port_binding"); err != nil {
		return err
	}
	return c.Done(http.StatusNoContent, b.onBindings().Delete(c.R.Context(), c.R.PathValue("port"),
		c.R.PathValue("host")))
}
