package sqldb

import (
	"database/sql"
	"time"
)

const (
	serverConns = 32        // connections to a database server; more would only queue inside the server
	idleConns   = 8         // of these, kept open while idle
	connAge     = time.Hour // as oslo.db's connection_recycle_time, below MySQL's wait_timeout
)

// serverPool sets the limits of a pool of connections to a database server.
func serverPool(pool *sql.DB) *sql.DB {
	pool.SetMaxOpenConns(serverConns)
	pool.SetMaxIdleConns(idleConns)
	pool.SetConnMaxLifetime(connAge)
	return pool
}
