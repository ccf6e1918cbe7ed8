// Package stress tests `berth placement` under load and failures, as a real process over real TCP: many clients claim
// and release resources that are too few for them, while the server or its database is killed, connections break and
// clients misbehave. It contains only tests. With -stress.race, as in `make race`, the process has the race
// detector.
//
// The tests record every response (load_clients_test.go). Afterwards the database must agree with the record
// (claim_checks_test.go): no provider exceeds its capacity, acknowledged claims exist, unacknowledged claims are
// complete or absent, and no others exist.
//
// The failures are random, from a seed. By default few seeds run, for seconds each; for more:
//
//	go test ./internal/stress -timeout 1h -args -stress.seeds=50 -stress.rounds=20
package stress
