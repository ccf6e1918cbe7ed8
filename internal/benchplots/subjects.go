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

func subjects() []subject {
	const bench = "./internal/bench"
	return []subject{
		{"fleet", "Candidate queries of a fleet, with claims", "hosts of 27 providers", bench, "BenchmarkFleet$", "hosts",
			[]int{100, 1000, 10_000}, benchtime(600), []figure{
				{"4 clients, median", "clients=4", "p50-ms", "ms"},
				{"4 clients, 99 %", "clients=4", "p99-ms", "ms"},
				{"memory", "clients=4", "rss-MiB", "MiB"},
				{"ready after the start", "clients=4", "ready-s", "s"},
			}},
		{"schedule", "Servers scheduled and claimed", "hosts of 24 devices", bench, "BenchmarkSchedule$", "schedule-hosts",
			[]int{100, 1000, 10_000}, benchtime(600), []figure{
				{"without a device", "flavor=plain", "servers/s", "servers/s"},
				{"with a device", "flavor=device", "servers/s", "servers/s"},
			}},
		{"list", "Last page of 1,000 servers", "servers", bench,
			"BenchmarkServerList$/path=servers$/filter=project$/page=last",
			"listed-servers",
			[]int{2000, 20_000, 200_000}, benchtime(20), []figure{
				{"of a project, median", "filter=project/page=last", "p50-ms", "ms"},
			}},
		{"agents", "Agents connected to one compute", "agents", bench, "BenchmarkIdleAgents$", "idle-agents",
			[]int{100, 1000, 10_000}, benchtime(1), []figure{
				{"memory", "IdleAgents", "idle-MiB", "MiB"},
				{"cores in an idle minute", "IdleAgents", "idle-cores", "cores"},
				{"all back after SIGKILL", "IdleAgents", "reconnect-s", "s"},
			}},
	}
}
