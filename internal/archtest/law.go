// Package archtest lists which package may import which, as data, and checks the code with tests.
//
// A package without a row fails, and so does a row without a package. The rows have the order of the map in
// ARCHITECTURE.md, which gives the reasons.
package archtest

import "slices"

// Room is a kind of package; it decides what the package may contain.
type Room string

// The rooms, from the ground up.
const (
	Word      Room = "word"      // value types that every service uses; pure
	Pure      Room = "pure"      // decisions of a service: no context, clock, lock, log, file, socket, goroutine
	Contract  Room = "contract"  // wire types and clients
	Cellar    Room = "cellar"    // the database layer under all stores
	Adapter   Room = "adapter"   // one external technology each
	Server    Room = "server"    // handlers and loops of a service
	Door      Room = "door"      // command line, console
	Assembly  Room = "assembly"  // connects the services; may import everything
	Workshop  Room = "workshop"  // tools for tests
	Essay     Room = "essay"     // only a doc.go
	Reference Room = "reference" // compares with OpenStack: imports no package of Berth
)

// Row is the rule for one package. Imports lists packages of Berth that it may import: exact paths relative to the
// module, or a prefix that ends in "/…". Outside lists modules that it may use in addition to the standard library.
type Row struct {
	Package string
	Room    Room
	Imports []string
	Outside []string
}

var words = []string{"fault", "resource", "provider", "pci", "numa"}

func with(base []string, more ...string) []string {
	return append(append([]string(nil), base...), more...)
}

// Rows returns the rules of all packages.
func Rows() []Row {
	contracts := with(words, "api/…")
	return append([]Row{
		{Package: "fault", Room: Word},
		{Package: "resource", Room: Word, Imports: []string{"fault"}},
		{Package: "provider", Room: Word, Imports: []string{"fault", "resource"}},
		{Package: "pci", Room: Word, Imports: []string{"fault", "resource", "provider"}},
		{Package: "numa", Room: Word, Imports: []string{"pci"}},
		{Package: "config", Room: Adapter, Imports: []string{"fault"}},

		{Package: "policy", Room: Adapter, Imports: []string{"fault", "config"}, Outside: []string{"go.yaml.in/yaml/v4"}},

		{Package: "api/rest", Room: Contract, Imports: []string{"fault"}},
		{Package: "api/identity", Room: Contract, Imports: []string{"fault", "config"},
			Outside: []string{"golang.org/x/sync"}},
		{Package: "api/cors", Room: Contract},
		{Package: "api/image", Room: Contract, Imports: []string{"fault", "api/identity"}},
		{Package: "api/host", Room: Contract, Imports: with(words, "api/rest")},
		{Package: "api/placement", Room: Contract, Imports: with(words, "api/rest"),
			Outside: []string{"github.com/santhosh-tekuri/jsonschema/v6", "github.com/google/uuid"}},
		{Package: "api/placement/placementtest", Room: Workshop,
			Imports: with(words, "api/placement", "placement/index", "placement/candidate")},
		{Package: "api/compute", Room: Contract, Imports: with(words, "api/rest")},

		{Package: "datafile", Room: Adapter, Imports: []string{"fault"}},
		{Package: "sqldb", Room: Cellar, Imports: []string{"fault", "datafile"},
			Outside: []string{"modernc.org/sqlite", "github.com/go-sql-driver/mysql", "github.com/jackc/pgx/v5"}},

		{Package: "cli", Room: Door, Imports: contracts, Outside: []string{"github.com/jedib0t/go-pretty/v6",
			"github.com/jaypipes/pcidb", "github.com/google/uuid"}},
		{Package: "cli/demo", Room: Door, Imports: with(contracts, "cli")},

		{Package: "conformance", Room: Reference},
	}, slices.Concat(services(contracts), assembly(), workshops())...)
}

// services returns the rules of the packages of Placement, the agent and compute.
func services(contracts []string) []Row {
	return []Row{
		{Package: "placement", Room: Essay},
		{Package: "placement/index", Room: Pure, Imports: words},
		{Package: "placement/match", Room: Pure, Imports: with(words, "placement/index")},
		{Package: "placement/candidate", Room: Pure, Imports: with(words, "placement/index", "placement/match")},
		{Package: "placement/candidate/candidatetest", Room: Workshop,
			Imports: with(words, "placement/index", "placement/candidate"), Outside: []string{"pgregory.net/rapid"}},
		{Package: "placement/explain", Room: Pure,
			Imports: with(words, "placement/index", "placement/match", "placement/candidate")},
		{Package: "placement/policies", Room: Adapter, Imports: []string{"policy"}},
		{Package: "placement/store", Room: Adapter, Imports: with(words, "placement/index", "sqldb"),
			Outside: []string{"github.com/google/uuid"}},
		{Package: "placement/metrics", Room: Adapter, Imports: []string{"fault"},
			Outside: []string{"github.com/prometheus/client_golang"}},
		{Package: "placement/server", Room: Server, Imports: with(contracts, "placement/…"),
			Outside: []string{"github.com/google/uuid"}},

		{Package: "agent", Room: Essay},
		{Package: "agent/device", Room: Pure, Imports: words},
		{Package: "agent/survey", Room: Pure, Imports: with(words, "agent/device")},
		{Package: "agent/heal", Room: Pure, Imports: with(words, "agent/device")},
		{Package: "agent/sysfs", Room: Adapter, Imports: words, Outside: []string{"golang.org/x/tools"}},
		{Package: "agent/cleaner", Room: Adapter, Imports: words},
		{Package: "agent/uevent", Room: Adapter, Imports: []string{"fault"}},
		{Package: "agent/journal", Room: Adapter, Imports: with(words, "agent/device", "datafile"),
			Outside: []string{"golang.org/x/sys"}},
		{Package: "agent/hypervisor", Room: Adapter, Imports: words},
		{Package: "agent/hypervisor/hypervisortest", Room: Workshop, Imports: with(words, "agent/hypervisor")},
		{Package: "agent/hypervisor/fake", Room: Adapter, Imports: with(words, "agent/hypervisor")},
		// The types of the journal, the drivers and the contracts are the machine's events and effects.
		{Package: "agent/reconcile", Room: Pure, Imports: with(words, "agent/device", "agent/survey", "agent/heal",
			"agent/journal", "agent/hypervisor", "agent/sysfs", "api/host", "api/placement")},
		{Package: "agent/loop", Room: Server, Imports: with(contracts, "agent/…"),
			Outside: []string{"github.com/google/uuid"}},

		{Package: "compute", Room: Essay},
		{Package: "compute/flavor", Room: Pure, Imports: words},
		{Package: "compute/schedule", Room: Pure, Imports: words},
		{Package: "compute/lifecycle", Room: Pure, Imports: with(words, "compute/flavor", "compute/schedule")},
		{Package: "compute/runner", Room: Server},
		{Package: "compute/conductor", Room: Server, Imports: with(contracts, "compute/…")},
		{Package: "compute/store", Room: Adapter, Imports: with(words, "compute/flavor", "compute/schedule",
			"compute/lifecycle", "sqldb")},
		{Package: "compute/server", Room: Server, Imports: with(contracts, "compute/…"),
			Outside: []string{"github.com/google/uuid"}},
	}
}

// assembly returns the rules of the packages that connect the services.
func assembly() []Row {
	return []Row{
		// The tests of internal/httpserver serve the Placement API; only an Assembly may import it.
		{Package: "internal/httpserver", Room: Assembly, Imports: []string{"fault"}},
		{Package: "internal/settings", Room: Assembly, Imports: []string{"fault", "provider", "pci", "config", "policy",
			"sqldb",
			"api/cors", "api/identity", "api/image", "placement/policies", "agent/hypervisor", "agent/reconcile", "agent/survey",
			"agent/sysfs", "internal/httpserver"}},
		{Package: "internal/app", Room: Assembly, Imports: []string{"…"}, Outside: []string{"github.com/google/uuid"}},
		{Package: "cmd/berth", Room: Assembly, Imports: []string{"…"}, Outside: []string{"github.com/alecthomas/kong",
			"golang.org/x/sync"}},
	}
}

func workshops() []Row {
	return []Row{
		{Package: "internal/archtest", Room: Workshop},
		{Package: "internal/bench", Room: Workshop, Imports: []string{"…"}, Outside: []string{"github.com/google/uuid"}},
		{Package: "internal/clienttest", Room: Workshop, Imports: []string{"internal/bench", "internal/databases",
			"internal/keystone"}, Outside: []string{"github.com/gophercloud/gophercloud/v2"}},
		{Package: "internal/databases", Room: Workshop, Imports: []string{"fault", "internal/testenv"},
			Outside: []string{"github.com/go-sql-driver/mysql", "github.com/jackc/pgx/v5"}},
		{Package: "internal/stress", Room: Workshop, Imports: []string{"…"}},
		{Package: "internal/glance", Room: Workshop, Imports: []string{"internal/keystone", "internal/testenv"}},
		{Package: "internal/keystone", Room: Workshop, Imports: []string{"internal/testenv"}},
		{Package: "internal/lab", Room: Workshop, Imports: []string{"fault"}},
		{Package: "internal/coexist", Room: Workshop, Imports: []string{"…"}, Outside: []string{"github.com/google/uuid"}},
		{Package: "internal/testenv", Room: Workshop},
		{Package: "internal/testsummary", Room: Workshop, Imports: []string{"internal/testenv"}},
		{Package: "internal/sim", Room: Workshop, Imports: []string{"…"}},
	}
}
