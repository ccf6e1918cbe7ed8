package server

import (
	"net/http"
	"strings"
	"testing"

	"github.com/openberth/berth/compute/lifecycle"
	"github.com/openberth/berth/compute/quota"
	"github.com/openberth/berth/resource"
)

// The network service counts what it gives to the ports of a server; the quota of the project refuses too much.
func TestPortGuaranteesAreCounted(t *testing.T) {
	h := start(t)
	h.store.SetQuotas(quota.Amounts{"class:NET_BW_EGR_KILOBIT_PER_SEC": 5000}, nil)
	h.flavor("f", nil)
	id := h.server(h.admin, "placed", "f")
	h.withPorts(id)
	if _, err := h.store.Change(t.Context(), id, func(s lifecycle.Server) lifecycle.Server {
		s.Ports[0].Groups = []resource.Group{{Resources: resource.Amounts{"NET_BW_EGR_KILOBIT_PER_SEC": 1000}}}
		return s
	}); err != nil {
		t.Fatal(err)
	}
	const change, other = "00000000-0000-4000-8000-0000000000c1", "00000000-0000-4000-8000-0000000000c2"
	more := func(n string) string { return `{"more": {"NET_BW_EGR_KILOBIT_PER_SEC": ` + n + `}}` }
	for _, c := range []struct {
		server, change, body, user string
		status, used               int
		part                       string
	}{
		{id, change, more("2000"), "admin", 204, 3000, ""},
		{id, change, more("2000"), "admin", 204, 3000, ""},
		{id, other, more("2001"), "admin", 409, 3000, "Requested 2001, but already used 3000 of 5000"},
		{id, change, `{"ports": {"plain": {"revision": 2, "amounts": {"NET_BW_EGR_KILOBIT_PER_SEC": 2500}}}}`, "admin", 204,
			2500, ""},
		{id, other, `{"ports": {}}`, "admin", 204, 2500, ""},
		{id, other, more("-1"), "admin", 400, 2500, "is not an amount"},
		{id, other, `{"more": {"NO_CLASS": 1}}`, "admin", 400, 2500, "NO_CLASS"},
		{id, other, `{}`, "admin", 400, 2500, "either more or ports"},
		{id, "change", more("1"), "admin", 400, 2500, "UUID"},
		{noServer, change, more("1"), "admin", 404, 2500, ""},
		{id, other, more("1"), "ann", 403, 2500, ""},
	} {
		r := h.ask(http.MethodPut, "/berth/v1/servers/"+c.server+"/guarantees/"+c.change, c.body, "X-Auth-Token", c.user)
		if r.status != c.status || !strings.Contains(r.text, c.part) {
			t.Errorf("%s: %d %s, want %d %s", c.body, r.status, r.text, c.status, c.part)
		}
		found, err := h.store.Read(t.Context(), id)
		if err != nil || found.QuotaUse()["class:NET_BW_EGR_KILOBIT_PER_SEC"] != c.used {
			t.Errorf("after %s: %v %v, want %d", c.body, found.QuotaUse(), err, c.used)
		}
	}
}
