package main

import "fmt"

// subject is a benchmark that runs at several sizes.
type subject struct {
	file, title string
	of          string // what the size counts
	pkg         string
	benchmark   string
	flag        string // gives the size
	sizes       []int
	arguments   func(size int) []string // further arguments
	curves      []figure
}

// figure is what a curve shows: a figure of the sub-benchmark whose name contains run.
type figure struct{ label, run, metric, unit string }

// benchtime returns the number of operations of each benchmark.
func benchtime(n int) func(int) []string {
	return func(int) []string { return []string{"-benchtime", fmt.Sprint(n, "x")} }
}

// servers returns the number of servers that are scheduled: many, because hosts are read into memory one by one, but
// not more than 100 hosts have devices for.
func servers(hosts int) []string { return benchtime(min(20*hosts, 3000))(hosts) }

func subjects() []subject {
	const bench = "./internal/bench"
	quantiles := func(run string) []figure {
		return []figure{{"median", run, "p50-ms", "ms"}, {"99 %", run, "p99-ms", "ms"}}
	}
	databases := func(benchmark, metric, unit string) (curves []figure) {
		for _, name := range []string{"SQLite", "MariaDB", "PostgreSQL"} {
			curves = append(curves, figure{name, benchmark + "/" + name, metric, unit})
		}
		return curves
	}
	return []subject{
		{"packed", "Generated queries that are hard to pack", "hosts", "./placement/candidate", "BenchmarkPacked$",
			"packed-hosts", []int{3, 30, 300}, benchtime(100), quantiles("Packed")},
		{"nested", "Nested query, unlimited, 4 clients", "trees", bench, "BenchmarkNested$/^unlimited$", "trees",
			[]int{100, 1000, 10_000}, benchtime(200), []figure{
				{"answers", "unlimited", "req/s", "answers/s"},
			}},
		{"fleet", "Candidate queries of a fleet, with claims", "hosts of 27 providers", bench, "BenchmarkFleet$", "hosts",
			[]int{100, 1000, 10_000}, benchtime(600), []figure{
				{"4 clients, median", "clients=4", "p50-ms", "ms"},
				{"4 clients, 99 %", "clients=4", "p99-ms", "ms"},
				{"memory", "clients=4", "rss-MiB", "MiB"},
				{"ready after the start", "clients=4", "ready-s", "s"},
			}},
		{"write", "Providers and inventories created", "clients", bench, "BenchmarkWrite$", "clients", []int{1, 10, 100},
			benchtime(4000), []figure{{"SQLite", "clients=", "calls/s", "calls/s"}}},
		{"claim", "Claims and removals", "clients", bench, "BenchmarkClaim$", "clients", []int{1, 10, 100}, benchtime(1500),
			databases("BenchmarkClaim", "claims/s", "claims/s")},
		{"claim-hosts", "Claims and removals of 64 clients", "hosts to claim from", bench, "BenchmarkClaim$/.*/clients=64",
			"halls", []int{40, 400, 4000}, benchtime(1500), databases("BenchmarkClaim", "claims/s", "claims/s")},
		{"schedule", "Servers scheduled and claimed", "hosts of 24 devices", bench, "BenchmarkSchedule$", "schedule-hosts",
			[]int{100, 1000, 10_000}, servers, []figure{
				{"without a device", "flavor=plain", "servers/s", "servers/s"},
				{"with a device", "flavor=device", "servers/s", "servers/s"},
			}},
		{"create", "One create at 20 servers/s, with a device", "hosts of 24 devices", bench,
			"BenchmarkOneCreate$/.*/.*/flavor=device", "schedule-hosts", []int{100, 1000, 10_000}, benchtime(300),
			quantiles("flavor=device")},
		{"active", "Servers from POST to ACTIVE", "agents", bench, "BenchmarkServersToActive$", "agents",
			[]int{3, 30, 300}, benchtime(600), []figure{{"32 clients", "/second", "servers/s", "servers/s"}}},
		{"active-existing", "Servers from POST to ACTIVE, 100 agents", "servers that exist", bench,
			"BenchmarkServersToActive$", "existing-servers", []int{100, 1000, 10_000}, benchtime(600), []figure{
				{"32 clients", "/second", "servers/s", "servers/s"},
			}},
		{"ports", "Ports with guaranteed bandwidth, bound", "hosts", bench, "BenchmarkBoundPorts$", "schedule-hosts",
			[]int{100, 1000, 10_000}, benchtime(600), []figure{{"16 clients", "BoundPorts", "ports/s", "ports/s"}}},
		{"seen", "A change until another process shows it", "hosts of 27 providers", bench, "BenchmarkChangeSeen$/.*/hosts",
			"hosts", []int{100, 1000, 10_000}, benchtime(15), databases("BenchmarkChangeSeen", "p50-ms", "ms")},
		{"list", "Last page of 1,000 servers", "servers", bench,
			"BenchmarkServerList$/path=servers$/filter=project$/page=last",
			"listed-servers",
			[]int{2000, 20_000, 200_000}, benchtime(20), []figure{
				{"of a project, median", "filter=project/page=last", "p50-ms", "ms"},
			}},
		// 20,000 files, the limit of the machine on which the plots were made, are enough for 10,000 agents at most.
		{"agents", "Agents connected to one compute", "agents", bench, "BenchmarkIdleAgents$", "idle-agents",
			[]int{90, 900, 9000}, benchtime(1), []figure{
				{"memory", "IdleAgents", "idle-MiB", "MiB"},
				{"cores in an idle minute", "IdleAgents", "idle-cores", "cores"},
				{"all back after SIGKILL", "IdleAgents", "reconnect-s", "s"},
			}},
	}
}
