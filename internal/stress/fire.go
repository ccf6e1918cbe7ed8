// Package stress puts `berth placement` under fire, as a real process over real TCP: many clients claim and let go on a
// world that is too small for them, while the server or its database is killed, connections break and clients
// misbehave. It holds tests only.
//
// What every client was told is written down (ledger_test.go). Afterwards the world must add up to it: no provider is
// over its capacity, what was acknowledged is there, what was not is whole or absent, and nothing else is there.
//
// The faults come by chance from a seed. By default few seeds run, for seconds each; for more:
//
//	go test -race ./internal/stress -timeout 1h -args -fire.seeds=50 -fire.rounds=20
package stress
