// Package lease gives one process at a time the exclusive use of compute's database.
//
// The files, from the bottom to the top: period.go is the period in which the process may act without asking the
// database; owner.go acquires, renews and releases the lease; fenced_database.go checks it in each transaction.
package lease
