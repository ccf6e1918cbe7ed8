package sqldb

// Dialect is the SQL dialect of a database. MariaDB and MySQL are one dialect.
type Dialect string

// The three dialects.
const (
	SQLite     Dialect = "sqlite"
	MySQL      Dialect = "mysql"
	PostgreSQL Dialect = "postgresql"
)
