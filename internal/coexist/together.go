// Package coexist lets Berth and OpenStack's own Placement serve one database: at the same moment, and one after the
// other. All are real processes over real TCP, on a real MariaDB and a real PostgreSQL. It holds tests only.
//
//   - hand-over: a database that the original filled is served by Berth, which changes none of its rows; what Berth wrote is then
//     served by the original, and both tell the same of every resource.
//   - sight: whatever one of them writes the others see, the original at once, Berth's candidates at its next look. How long that took
//     is printed.
//   - race: clients of all servers fight for what is scarce. What is judged is the database itself, by SQL: at no moment is a provider
//     over its capacity; in the end what was acknowledged is there whole, and nothing else is.
//
// Several Berths on one SQLite file race too. The race is by chance from a seed. By default there is one seed; for
// more:
//
//	go test ./internal/coexist -run 'Race|Together' -timeout 1h -args -together.seeds=20 -together.claims=300
package coexist
