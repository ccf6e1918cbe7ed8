package operations

import (
	"cmp"
	"strings"

	api "github.com/openberth/berth/api/network"
	"github.com/openberth/berth/network/address"
	"github.com/openberth/berth/network/store"
)

// DefaultDNSDomain is Neutron's default of [DEFAULT] dns_domain.
const DefaultDNSDomain = "openstacklocal"

// DNSAssignment is the name of an address of a port.
type DNSAssignment struct {
	Address  string
	Hostname string
	FQDN     string // ends with a dot
}

// Domain returns the domain of the names of a network, without a dot at its end.
func Domain(s *Service, n store.Network) string {
	return strings.ToLower(strings.Trim(cmp.Or(n.DNSDomain, s.DNSDomain, DefaultDNSDomain), "."))
}

// DNSAssignments returns the names of the addresses of a port: its dns_name, or, as Neutron forms them, names of the
// addresses.
func DNSAssignments(p store.Port, domain string) (list []DNSAssignment) {
	for _, ip := range p.FixedIPs {
		name := hostName(p.DNSName, ip.Address, domain)
		list = append(list, DNSAssignment{ip.Address, name, name + "." + domain + "."})
	}
	return list
}

// hostName returns the name of an address in its network, without the domain.
func hostName(dnsName, at, domain string) string {
	if name := strings.TrimSuffix(strings.TrimSuffix(dnsName, "."), "."+domain); name != "" {
		return name
	}
	if a, err := address.Parse(at); err == nil && a.Is6() {
		at = a.StringExpanded()
	}
	return "host-" + strings.NewReplacer(".", "-", ":", "-").Replace(at)
}

// checkDNSName refuses a name that is not valid in DNS, or that has a dot at its end and is not in the domain.
func checkDNSName(name, domain string) error {
	bare := strings.TrimSuffix(name, ".")
	if name == "" {
		return nil
	}
	if why := api.WhyNotDNS(bare + "." + domain); why != "" {
		return invalid("dns_name '%s' is not valid: %s", name, why)
	}
	if bare != name && !strings.HasSuffix(bare, "."+domain) {
		return invalid("dns_name '%s' is not valid: it ends with a dot and is not in the domain %s.; leave the dot out",
			name, domain)
	}
	return nil
}

// checkDNSDomain refuses a domain that is not valid in DNS.
func checkDNSDomain(domain string) error {
	if why := api.WhyNotDNS(strings.TrimSuffix(domain, ".")); domain != "" && why != "" {
		return invalid("dns_domain '%s' is not valid: %s", domain, why)
	}
	if len(domain) > api.MaxDNSDomain {
		return invalid("dns_domain '%s' is not valid: it has more than %d characters, so that names of servers in it would "+
			"be too long", domain, api.MaxDNSDomain)
	}
	return nil
}
