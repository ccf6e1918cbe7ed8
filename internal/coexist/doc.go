// Package coexist tests Berth and OpenStack's own Placement on one database: at the same time, and one after the
// other. All are real processes over real TCP, on a real MariaDB and a real PostgreSQL. It contains only tests.
//
//   - handover: Berth serves a database that OpenStack's Placement filled, and changes none of its rows. Then
//     OpenStack's Placement serves what Berth wrote, and both return the same for every resource.
//   - visibility: what one server writes is visible to the others: to OpenStack's Placement at once, to Berth's
//     candidates after its next poll. The test prints the delay.
//   - race: clients of all servers compete for scarce resources. SQL queries on the database check that no provider
//     exceeds its capacity at any moment, and that at the end all acknowledged claims are complete and no others exist.
//   - NUMA: an agent moves what guests use between the root and the providers of NUMA nodes, beside either service.
//
// Several Berths on one SQLite file race too. The race is random, from a seed. By default there is one seed; for more:
//
//	go test ./internal/coexist -run 'Race|SharedDatabase' -timeout 1h -args -coexist.seeds=20 -coexist.claims=300
package coexist
