// Package archtest lists which package may import which, as data, and checks the code with tests.
//
// A package without a row fails, and so does a row without a package. The rows have the order of the map in
// ARCHITECTURE.md, which gives the reasons.
package archtest

import (
	"slices"
)

// Kind is a kind of package; it decides what the package may contain.
type Kind string

// The kinds, from the bottom up.
const (
	Domain      Kind = "domain"        // value types that every service uses; pure
	Pure        Kind = "pure"          // decisions of a service: no context, clock, lock, log, file, socket, goroutine
	Contract    Kind = "contract"      // wire types and clients
	Database    Kind = "database"      // the database layer under all stores
	Adapter     Kind = "adapter"       // one external technology each
	Server      Kind = "server"        // handlers and loops of a service
	Client      Kind = "client"        // command line, console
	Assembly    Kind = "assembly"      // connects the services; may import everything
	TestSupport Kind = "test support"  // tools for tests
	DocOnly     Kind = "documentation" // only a doc.go
	Reference   Kind = "reference"     // compares with OpenStack: imports no package of a service
)

// Row is the rule for one package. Imports lists packages of Berth that it may import: exact paths relative to the
// module, or a prefix that ends in "/…". Outside lists modules that it may use in addition to the standard library.
type Row struct {
	Package string
	Kind    Kind
	Imports []string
	Outside []string
}

// unreachable lists the packages that a package must not import, not even through others: what plans has no value that
// writes.
var unreachable = map[string][]string{
	"compute/scheduler": {"compute/allocations", "compute/ports", "compute/audit", "compute/conductor"},
}

var domain = []string{"fault", "resource", "provider", "pci", "numa", "bandwidth", "securitygroup", "condition",
	"hosttree"}

// drivers are those of the databases.
var drivers = []string{"modernc.org/sqlite", "github.com/go-sql-driver/mysql", "github.com/jackc/pgx/v5"}

func with(base []string, more ...string) []string {
	return append(append([]string(nil), base...), more...)
}

// Rows returns the rules of all packages.
func Rows() []Row {
	contracts := with(domain, "api/…")
	return append([]Row{
		{Package: "fault", Kind: Domain},
		{Package: "resource", Kind: Domain, Imports: []string{"fault"}},
		{Package: "provider", Kind: Domain, Imports: []string{"fault", "resource"}},
		{Package: "pci", Kind: Domain, Imports: []string{"fault", "resource", "provider"}},
		{Package: "numa", Kind: Domain, Imports: []string{"pci", "resource"}},
		{Package: "headroom", Kind: Pure, Imports: []string{"provider", "resource"}},
		{Package: "plan", Kind: Pure, Imports: []string{"pci", "numa", "resource"}},
		{Package: "bandwidth", Kind: Domain, Imports: []string{"fault", "resource", "provider"}},
		{Package: "securitygroup", Kind: Domain, Imports: []string{"fault"}},
		{Package: "condition", Kind: Domain},
		{Package: "hosttree", Kind: Domain, Imports: []string{"bandwidth", "condition", "pci", "provider", "resource"}},
		{Package: "diskimage", Kind: Domain, Imports: []string{"fault"}},
		{Package: "backoff", Kind: Adapter},
		{Package: "config", Kind: Adapter, Imports: []string{"fault"}},

		{Package: "policy", Kind: Adapter, Imports: []string{"fault", "config"}, Outside: []string{"go.yaml.in/yaml/v4"}},

		{Package: "api/trace", Kind: Contract, Imports: []string{"fault"}},
		{Package: "api/rest", Kind: Contract, Imports: []string{"fault", "api/trace"}},
		{Package: "api/identity", Kind: Contract, Imports: []string{"fault", "backoff", "config"},
			Outside: []string{"golang.org/x/sync", "golang.org/x/crypto"}},
		{Package: "api/cors", Kind: Contract},
		{Package: "api/audit", Kind: Contract, Imports: []string{"fault"}},
		{Package: "api/edge", Kind: Contract, Imports: []string{"fault", "api/rest", "api/identity", "api/audit", "api/cors",
			"api/trace"},
			Outside: []string{"github.com/google/uuid", "github.com/prometheus/client_golang"}},
		{Package: "api/eventstream", Kind: Contract, Imports: []string{"fault", "api/edge", "api/rest"}},
		{Package: "api/limits", Kind: Contract, Imports: []string{"fault", "api/rest"}},
		{Package: "api/image", Kind: Contract, Imports: []string{"fault", "backoff", "api/identity", "api/rest",
			"api/trace"}},
		{Package: "api/host", Kind: Contract, Imports: with(domain, "api/rest")},
		{Package: "api/placement", Kind: Contract, Imports: with(domain, "api/host", "api/rest"),
			Outside: []string{"github.com/santhosh-tekuri/jsonschema/v6", "github.com/google/uuid"}},
		{Package: "placement/placementtest", Kind: TestSupport,
			Imports: with(domain, "api/placement", "placement/index", "placement/candidate")},
		{Package: "api/compute", Kind: Contract, Imports: with(domain, "api/rest")},

		{Package: "api/network", Kind: Contract, Imports: with(domain, "bandwidth", "api/rest")},

		{Package: "fleet", Kind: Pure, Imports: with(domain, "compute/flavor", "compute/portrequest")},
		{Package: "fleet/headroom", Kind: Pure, Imports: with(domain, "fleet", "placement/headroom", "placement/index")},
		{Package: "fleet/heal", Kind: Client, Imports: with(domain, "api/placement", "fleet")},
		{Package: "fleet/read", Kind: Client, Imports: with(contracts, "backoff", "fleet")},
		{Package: "fleet/auditor", Kind: Client,
			Imports: []string{"api/host", "backoff", "fleet", "fleet/heal", "fleet/read"},
			Outside: []string{"github.com/prometheus/client_golang"}},
		{Package: "console/view", Kind: Pure, Imports: with(domain, "api/compute", "api/eventstream",
			"api/host", "api/network", "api/placement", "fleet", "fleet/headroom")},
		{Package: "console", Kind: Client, Imports: with(contracts, "console/view", "fleet", "fleet/headroom",
			"fleet/heal", "fleet/read")},

		{Package: "datafile", Kind: Adapter, Imports: []string{"fault"}},
		{Package: "cloudsfile", Kind: Adapter, Imports: []string{"fault", "datafile"},
			Outside: []string{"go.yaml.in/yaml/v4"}},
		{Package: "sqldb", Kind: Database, Imports: []string{"fault", "backoff", "datafile"}, Outside: drivers},

		{Package: "cli", Kind: Client, Imports: with(contracts, "backoff", "cloudsfile", "config", "datafile", "diskimage",
			"fleet", "fleet/headroom", "fleet/heal", "fleet/read", "console"),
			Outside: []string{"github.com/alecthomas/kong", "github.com/jedib0t/go-pretty/v6", "go.yaml.in/yaml/v4",
				"github.com/jaypipes/pcidb", "github.com/google/uuid", "golang.org/x/sys", "golang.org/x/crypto"}},
		{Package: "cli/demo", Kind: Client, Imports: with(contracts, "backoff", "bandwidth", "cli")},

		{Package: "internal/conformance", Kind: Reference, Outside: drivers},
	}, slices.Concat(services(contracts), computeRules(contracts), agentRules(contracts), bridgeRules(),
		assembly(), testSupport())...)
}

// computeRules returns the rules of the packages of compute.
func computeRules(contracts []string) []Row {
	return []Row{
		{Package: "compute", Kind: DocOnly},
		{Package: "compute/portrequest", Kind: Pure, Imports: domain},
		{Package: "compute/flavor", Kind: Pure, Imports: domain},
		{Package: "compute/quota", Kind: Pure, Imports: []string{"fault", "resource"}},
		{Package: "compute/schedule", Kind: Pure,
			Imports: with(domain, "plan", "placement/candidate", "placement/index")},
		{Package: "compute/lifecycle", Kind: Pure, Imports: with(domain, "bandwidth", "compute/flavor",
			"compute/quota", "compute/schedule"), Outside: []string{"github.com/google/uuid"}},
		{Package: "compute/record", Kind: Adapter, Imports: with(domain, "api/host", "compute/flavor", "compute/lifecycle",
			"compute/schedule"), Outside: []string{"github.com/google/uuid"}},
		{Package: "compute/policies", Kind: Adapter, Imports: []string{"api/identity", "policy"}},
		{Package: "compute/runner", Kind: Server, Imports: []string{"backoff"}},
		{Package: "compute/presence", Kind: Server, Imports: []string{"condition", "fault", "api/host", "compute/schedule",
			"compute/lifecycle"}},
		{Package: "compute/allocations", Kind: Server, Imports: with(domain, "api/placement", "compute/lifecycle")},
		{Package: "compute/audit", Kind: Server, Imports: with(domain, "api/placement", "compute/schedule",
			"compute/lifecycle", "compute/allocations")},
		{Package: "compute/scheduler", Kind: Server, Imports: with(domain, "api/network", "api/placement",
			"compute/flavor", "headroom", "compute/lifecycle", "compute/portrequest", "compute/presence",
			"compute/schedule")},
		{Package: "compute/ports", Kind: Server, Imports: with(domain, "api/network", "api/placement",
			"compute/allocations", "compute/lifecycle", "compute/portrequest", "compute/quota", "compute/schedule",
			"compute/scheduler")},
		{Package: "compute/conductor", Kind: Server, Imports: with(contracts, "backoff", "compute/…"),
			Outside: []string{"github.com/google/uuid"}},
		{Package: "compute/store/lease", Kind: Adapter, Imports: []string{"fault", "backoff", "sqldb"}},
		{Package: "compute/store", Kind: Adapter, Imports: with(domain, "compute/flavor", "compute/schedule",
			"compute/lifecycle", "compute/quota", "compute/record", "compute/store/lease", "sqldb"),
			Outside: []string{"github.com/google/uuid"}},
		{Package: "compute/events", Kind: Server, Imports: []string{"condition", "pci", "api/eventstream",
			"compute/lifecycle", "compute/schedule", "compute/store"}},
		{Package: "compute/server/request", Kind: Server, Imports: with(contracts, "compute/lifecycle",
			"compute/policies", "compute/presence", "compute/schedule", "compute/store"),
			Outside: []string{"github.com/google/uuid"}},
		{Package: "compute/server/catalog", Kind: Server, Imports: with(contracts, "compute/flavor", "compute/lifecycle",
			"compute/policies", "compute/quota", "compute/schedule", "compute/store", "compute/server/request"),
			Outside: []string{"golang.org/x/crypto"}},
		{Package: "compute/server/consoles", Kind: Server, Imports: with(contracts, "compute/lifecycle",
			"compute/policies", "compute/server/request"),
			Outside: []string{"github.com/coder/websocket", "github.com/google/uuid"}},
		{Package: "compute/server/operator", Kind: Server, Imports: with(contracts, "compute/lifecycle",
			"compute/policies", "compute/schedule", "compute/store", "compute/server/request"),
			Outside: []string{"github.com/google/uuid"}},
		{Package: "compute/server/hosts", Kind: Server, Imports: with(contracts, "compute/audit", "compute/flavor",
			"compute/lifecycle", "compute/policies", "compute/portrequest", "compute/ports",
			"compute/presence", "compute/record", "compute/schedule", "compute/scheduler", "compute/store",
			"compute/server/request", "compute/server/consoles"), Outside: []string{"github.com/google/uuid"}},
		{Package: "compute/server/networking", Kind: Server, Imports: with(contracts, "compute/lifecycle",
			"compute/policies", "compute/portrequest", "compute/quota", "compute/server/request"),
			Outside: []string{"github.com/google/uuid"}},
		{Package: "compute/server/servers", Kind: Server, Imports: with(contracts, "compute/flavor", "compute/lifecycle",
			"compute/policies", "compute/quota", "compute/schedule", "compute/store", "compute/server/request",
			"compute/server/catalog", "compute/server/networking"), Outside: []string{"github.com/google/uuid"}},
		{Package: "compute/server/actions", Kind: Server, Imports: with(contracts, "compute/flavor",
			"compute/lifecycle", "compute/policies", "compute/schedule", "compute/store", "compute/server/request",
			"compute/server/catalog", "compute/server/consoles", "compute/server/networking",
			"compute/server/servers")},
		{Package: "compute/metrics", Kind: Server, Imports: with(domain, "api/edge", "api/host", "compute/lifecycle",
			"compute/schedule", "compute/store"), Outside: []string{"github.com/prometheus/client_golang"}},
		{Package: "compute/server", Kind: Server, Imports: with(contracts, "compute/…"),
			Outside: []string{"github.com/google/uuid"}},
	}
}

// services returns the rules of the packages of Placement, the image service and the network service.
func services(contracts []string) []Row {
	return []Row{
		{Package: "placement", Kind: DocOnly},
		{Package: "placement/index", Kind: Pure, Imports: domain},
		{Package: "placement/history", Kind: Pure, Imports: []string{"fault", "resource", "placement/index"}},
		{Package: "placement/match", Kind: Pure, Imports: with(domain, "placement/index")},
		{Package: "placement/candidate", Kind: Pure, Imports: with(domain, "placement/index", "placement/match")},
		{Package: "placement/candidate/candidatetest", Kind: TestSupport,
			Imports: with(domain, "placement/index", "placement/candidate"), Outside: []string{"pgregory.net/rapid"}},
		{Package: "placement/explain", Kind: Pure,
			Imports: with(domain, "placement/index", "placement/match", "placement/candidate")},
		{Package: "placement/headroom", Kind: Pure, Imports: with(domain, "headroom", "placement/index", "placement/match",
			"placement/candidate", "placement/explain")},
		{Package: "placement/policies", Kind: Adapter, Imports: []string{"api/identity", "policy"}},
		{Package: "placement/store", Kind: Adapter, Imports: with(domain, "backoff", "placement/history", "placement/index",
			"sqldb"),
			Outside: []string{"github.com/google/uuid"}},
		{Package: "placement/metrics", Kind: Adapter, Imports: []string{"fault", "api/edge", "placement/index"},
			Outside: []string{"github.com/prometheus/client_golang"}},
		{Package: "placement/liveindex", Kind: Server, Imports: with(domain, "placement/index", "placement/store")},
		{Package: "placement/liveindex/indextest", Kind: TestSupport,
			Imports: with(domain, "placement/index", "placement/store")},
		{Package: "placement/shadow/difference", Kind: Adapter},
		{Package: "placement/shadow", Kind: Server, Imports: []string{"fault", "datafile", "api/rest",
			"placement/shadow/difference"}},
		{Package: "placement/events", Kind: Server, Imports: with(domain, "api/eventstream", "placement/index",
			"placement/store")},
		{Package: "placement/server/request", Kind: Server, Imports: with(contracts, "placement/index",
			"placement/liveindex", "placement/metrics", "placement/policies", "placement/store")},
		{Package: "placement/server/candidates", Kind: Server, Imports: with(contracts, "placement/candidate",
			"placement/explain", "placement/headroom", "placement/index", "placement/server/request",
			"placement/store")},
		{Package: "placement/server/resources", Kind: Server, Imports: with(contracts, "placement/index",
			"placement/liveindex", "placement/server/request", "placement/store")},
		{Package: "placement/server", Kind: Server, Imports: with(contracts, "backoff", "placement/…"),
			Outside: []string{"github.com/google/uuid"}},

		{Package: "image", Kind: DocOnly},
		{Package: "image/webdownload", Kind: Adapter, Imports: []string{"fault"}},
		{Package: "image/store", Kind: Adapter, Imports: []string{"fault", "datafile", "diskimage"},
			Outside: []string{"github.com/google/uuid"}},
		{Package: "image/policies", Kind: Adapter, Imports: []string{"api/identity", "policy"}},
		{Package: "image/server", Kind: Server, Imports: with(contracts, "diskimage", "image/…"),
			Outside: []string{"github.com/google/uuid"}},

		{Package: "network", Kind: DocOnly},
		{Package: "network/address", Kind: Pure},
		{Package: "network/qos", Kind: Pure, Imports: with(domain, "bandwidth")},
		{Package: "network/binding", Kind: Pure, Imports: with(domain, "bandwidth", "network/qos")},
		{Package: "network/policies", Kind: Adapter, Imports: []string{"api/identity", "policy"}},
		{Package: "network/store", Kind: Adapter, Imports: with(domain, "sqldb")},
		{Package: "network/operations", Kind: Server, Imports: with(contracts, "backoff", "bandwidth", "sqldb", "network/…")},
		{Package: "network/events", Kind: Server, Imports: []string{"api/eventstream", "network/store"}},
		{Package: "network/server/request", Kind: Server, Imports: []string{"fault", "api/edge", "api/rest",
			"network/operations", "network/policies", "network/store"}},
		{Package: "network/server/resources", Kind: Server, Imports: with(contracts, "network/address",
			"network/binding", "network/operations", "network/policies", "network/qos", "network/server/request",
			"network/store")},
		{Package: "network/server", Kind: Server, Imports: with(contracts, "bandwidth", "network/…")},
	}
}

// agentRules returns the rules of the agent's packages.
func agentRules(contracts []string) []Row {
	return []Row{
		{Package: "agent", Kind: DocOnly},
		{Package: "agent/device", Kind: Pure, Imports: with(domain, "plan")},
		{Package: "agent/facts", Kind: Pure, Imports: []string{"pci"}},
		{Package: "agent/survey", Kind: Pure, Imports: with(domain, "agent/device", "agent/facts")},
		{Package: "agent/groupfilter", Kind: Pure, Imports: []string{"securitygroup"}},
		{Package: "agent/nftables", Kind: Adapter, Imports: with(contracts, "agent/groupfilter", "agent/bridgeplan"),
			Outside: []string{"github.com/vishvananda/netlink"}},
		{Package: "agent/kind", Kind: Pure, Imports: with(domain, "agent/device", "agent/survey")},
		{Package: "agent/treeplan", Kind: Pure, Imports: with(domain, "agent/device")},
		{Package: "agent/sysfs", Kind: Adapter, Imports: with(domain, "agent/facts"),
			Outside: []string{"golang.org/x/tools"}},
		{Package: "agent/powervm", Kind: DocOnly},
		{Package: "agent/powervm/uom", Kind: Pure},
		{Package: "agent/powervm/ioslot", Kind: Pure, Imports: []string{"fault", "resource", "agent/powervm/uom"}},
		{Package: "agent/powervm/inventoryfile", Kind: Pure, Imports: []string{"fault", "resource", "agent/powervm/ioslot"},
			Outside: []string{"go.yaml.in/yaml/v4"}},
		{Package: "agent/powervm/slotsurvey", Kind: Pure, Imports: with(domain, "agent/device", "agent/survey",
			"agent/kind", "agent/powervm/ioslot", "agent/powervm/inventoryfile")},
		{Package: "agent/powervm/restclient", Kind: Adapter, Imports: []string{"fault", "backoff", "api/rest",
			"agent/powervm/uom"}},
		{Package: "agent/powervm/slotsource", Kind: Adapter, Imports: []string{"fault", "pci", "agent/facts",
			"agent/powervm/uom", "agent/powervm/ioslot", "agent/powervm/inventoryfile", "agent/powervm/slotsurvey"}},
		{Package: "agent/program", Kind: Adapter, Imports: with(domain, "agent/device")},
		{Package: "agent/health", Kind: Adapter, Imports: with(domain, "agent/device", "agent/program", "agent/sysfs")},
		{Package: "agent/uevent", Kind: Adapter, Imports: []string{"fault"}},
		{Package: "agent/vfconfig", Kind: Pure, Imports: []string{"agent/device"}},
		{Package: "agent/vflink", Kind: Adapter, Imports: []string{"fault", "pci", "agent/vfconfig"},
			Outside: []string{"github.com/vishvananda/netlink"}},
		{Package: "agent/dataplane", Kind: Adapter, Imports: []string{"fault", "condition", "pci", "api/network",
			"agent/device", "agent/vfconfig"}},
		{Package: "agent/dataplane/kerneltest", Kind: TestSupport, Imports: []string{"fault", "pci", "agent/vfconfig"}},
		{Package: "agent/journal", Kind: Adapter, Imports: with(domain, "agent/device", "datafile"),
			Outside: []string{"golang.org/x/sys"}},
		{Package: "agent/hypervisor", Kind: Adapter, Imports: with(domain, "agent/device")},
		{Package: "agent/hypervisor/hypervisortest", Kind: TestSupport, Imports: with(domain, "agent/device",
			"agent/hypervisor")},
		{Package: "agent/hypervisor/libvirt/domainxml", Kind: Pure, Imports: with(domain, "agent/device",
			"agent/hypervisor"), Outside: []string{"github.com/beevik/etree", "libvirt.org/go/libvirtxml"}},
		{Package: "agent/hypervisor/libvirt", Kind: Adapter, Imports: with(domain, "agent/device", "agent/hypervisor",
			"agent/hypervisor/libvirt/domainxml", "agent/hypervisor/libvirt/rpc", "agent/imagecache", "agent/configdrive",
			"backoff", "datafile"),
			Outside: []string{"github.com/google/uuid"}},
		{Package: "agent/configdrive", Kind: Adapter, Imports: []string{"fault"}},
		{Package: "agent/imagecache", Kind: Adapter, Imports: []string{"agent/hypervisor", "api/image", "datafile",
			"diskimage", "fault"},
			Outside: []string{"github.com/google/uuid"}},
		{Package: "agent/hypervisor/libvirt/rpc", Kind: Adapter, Imports: []string{"fault"},
			Outside: []string{"github.com/digitalocean/go-libvirt", "github.com/google/uuid"}},
		{Package: "agent/hypervisor/fake", Kind: Adapter, Imports: with(domain, "agent/device", "agent/hypervisor",
			"agent/imagecache")},
		{Package: "agent/hypervisor/powervm", Kind: Adapter, Imports: with(domain, "agent/device", "agent/hypervisor",
			"agent/powervm/uom", "agent/powervm/ioslot", "agent/powervm/restclient",
			"datafile")},
		// The types of the journal, the drivers and the contracts are the machine's events and effects.
		{Package: "agent/reconcile/state", Kind: Pure, Imports: with(domain, "backoff", "agent/device", "agent/survey",
			"agent/treeplan", "agent/journal", "agent/hypervisor", "agent/facts", "agent/kind", "agent/vfconfig", "api/host",
			"api/placement")},
		{Package: "agent/reconcile/sync", Kind: Pure, Imports: with(domain, "agent/device", "agent/survey",
			"agent/treeplan", "agent/journal", "agent/hypervisor", "agent/facts", "agent/kind", "api/host", "api/placement",
			"agent/reconcile/state")},
		{Package: "agent/reconcile/guests", Kind: Pure, Imports: with(domain, "backoff", "agent/device", "agent/journal",
			"agent/hypervisor", "agent/vfconfig", "api/host", "api/placement", "agent/reconcile/state")},
		{Package: "agent/reconcile", Kind: Pure, Imports: with(domain, "agent/device", "agent/treeplan", "agent/journal",
			"agent/vfconfig", "api/host", "agent/reconcile/state", "agent/reconcile/sync", "agent/reconcile/guests")},
		{Package: "agent/loop", Kind: Server, Imports: with(contracts, "agent/…", "backoff"),
			Outside: []string{"github.com/google/uuid"}},
	}
}

// bridgeRules returns the rules of the packages of networks on Linux bridges.
func bridgeRules() []Row {
	return []Row{
		{Package: "agent/bridgeplan", Kind: Pure, Imports: []string{"condition", "api/network"}},
		{Package: "agent/bridgelink", Kind: Adapter, Imports: []string{"fault", "agent/bridgeplan"},
			Outside: []string{"github.com/vishvananda/netlink"}},
		{Package: "agent/dnsmasq", Kind: Adapter, Imports: []string{"fault", "datafile", "agent/bridgeplan"}},
		{Package: "agent/metadata", Kind: Adapter, Imports: []string{"fault", "agent/configdrive"}},
		{Package: "agent/bridges", Kind: Adapter, Imports: []string{"fault", "condition", "datafile", "api/network",
			"agent/bridgeplan"}},
	}
}

// assembly returns the rules of the packages that connect the services.
func assembly() []Row {
	return []Row{
		// The tests of internal/httpserver serve the Placement API; only an Assembly may import it.
		{Package: "internal/systemd", Kind: Adapter, Imports: []string{"fault"}},
		{Package: "internal/httpserver", Kind: Assembly, Imports: []string{"fault"},
			Outside: []string{"golang.org/x/sys"}},
		{Package: "internal/settings", Kind: Assembly, Imports: []string{"fault", "provider", "pci", "bandwidth", "config",
			"policy", "sqldb",
			"api/cors", "api/identity", "api/image", "api/limits", "api/network", "api/rest", "api/trace",
			"placement/policies", "compute/policies", "compute/quota", "network/policies", "image/policies",
			"image/webdownload", "agent/facts", "agent/nftables",
			"agent/health", "agent/hypervisor", "agent/hypervisor/libvirt/rpc",
			"agent/reconcile/state",
			"agent/survey",
			"agent/sysfs", "agent/powervm/…", "internal/httpserver", "docs/guide"}},
		{Package: "docs/guide", Kind: Domain},
		{Package: "internal/setup", Kind: Assembly, Imports: []string{"fault", "backoff", "datafile", "api/…",
			"cloudsfile", "internal/join", "internal/settings", "internal/userfile"},
			Outside: []string{"go.yaml.in/yaml/v4", "golang.org/x/crypto"}},
		{Package: "internal/join", Kind: Adapter, Imports: []string{"fault", "datafile", "api/rest"}},
		{Package: "internal/userfile", Kind: Adapter, Imports: []string{"fault", "datafile", "api/identity"},
			Outside: []string{"golang.org/x/crypto"}},
		{Package: "internal/linuxguest", Kind: Adapter, Imports: []string{"fault"}},
		{Package: "internal/ownlibvirt", Kind: Adapter, Imports: []string{"fault"},
			Outside: []string{"github.com/google/uuid"}},
		{Package: "internal/backup", Kind: Adapter, Imports: []string{"fault", "datafile", "sqldb"}},
		{Package: "internal/upgrade", Kind: Assembly, Imports: []string{"fault", "sqldb", "agent/journal", "compute/store",
			"image/store", "internal/backup", "network/store", "placement/store", "provider"}},
		{Package: "internal/app", Kind: Assembly, Imports: []string{"…"}, Outside: []string{"github.com/google/uuid"}},
		{Package: "cmd/berth", Kind: Assembly, Imports: []string{"…"}, Outside: []string{"github.com/alecthomas/kong",
			"golang.org/x/sync"}},
	}
}

func testSupport() []Row {
	return []Row{
		{Package: "internal/archtest", Kind: TestSupport},
		{Package: "internal/openapi", Kind: TestSupport, Imports: []string{"api/compute", "api/host", "api/network",
			"api/placement"}, Outside: []string{"go.yaml.in/yaml/v4"}},
		{Package: "internal/browser", Kind: TestSupport, Imports: []string{"internal/testenv"},
			Outside: []string{"github.com/coder/websocket"}},
		{Package: "internal/bench", Kind: TestSupport, Imports: []string{"…"}, Outside: []string{"github.com/google/uuid"}},
		{Package: "internal/benchplots", Kind: TestSupport},
		{Package: "internal/flamegraphs", Kind: TestSupport, Outside: []string{"github.com/google/pprof/profile"}},
		{Package: "internal/clienttest", Kind: TestSupport, Imports: []string{"internal/bench", "internal/databases",
			"internal/glance", "internal/keystone", "internal/testenv"},
			Outside: []string{"github.com/gophercloud/gophercloud/v2"}},
		{Package: "internal/databases", Kind: TestSupport, Imports: []string{"fault", "internal/testenv"},
			Outside: []string{"github.com/go-sql-driver/mysql", "github.com/jackc/pgx/v5"}},
		{Package: "internal/stress", Kind: TestSupport, Imports: []string{"…"}},
		{Package: "internal/glance", Kind: TestSupport, Imports: []string{"internal/keystone", "internal/testenv"}},
		{Package: "internal/keystone", Kind: TestSupport, Imports: []string{"internal/testenv"}},
		{Package: "internal/lab", Kind: TestSupport, Imports: []string{"fault", "internal/linuxguest"}},
		{Package: "internal/lab/vfguest", Kind: TestSupport, Imports: with(domain, "api/…", "agent/vfconfig",
			"agent/vflink", "agent/hypervisor/libvirt/rpc"), Outside: []string{"github.com/vishvananda/netlink"}},
		{Package: "internal/machines", Kind: TestSupport, Imports: []string{"internal/bench", "internal/keystone",
			"internal/openstackclient", "internal/testenv"}},
		{Package: "internal/openstackclient", Kind: TestSupport, Imports: []string{"internal/testenv"}},
		{Package: "internal/coexist", Kind: TestSupport, Imports: []string{"…"}, Outside: []string{"github.com/google/uuid"}},
		{Package: "internal/testcert", Kind: TestSupport},
		{Package: "internal/libvirtd", Kind: TestSupport, Imports: []string{"internal/ownlibvirt", "internal/testcert",
			"internal/testenv"}},
		{Package: "internal/nova", Kind: TestSupport},
		{Package: "internal/novalink", Kind: TestSupport},
		{Package: "internal/neutron", Kind: TestSupport, Imports: []string{"bandwidth", "internal/clienttest",
			"internal/databases", "internal/testenv"}},
		{Package: "internal/testenv", Kind: TestSupport},
		{Package: "plan/plantest", Kind: TestSupport, Imports: []string{"pci", "numa", "plan"}},
		{Package: "internal/testsummary", Kind: TestSupport, Imports: []string{"internal/testenv"}},
		{Package: "internal/sim", Kind: TestSupport, Imports: []string{"…"}},
		{Package: "internal/scenario", Kind: TestSupport, Imports: []string{"…"},
			Outside: []string{"github.com/alecthomas/kong"}},
	}
}
