package bench

// durable are the settings of MariaDB with which a COMMIT is on the disk when it is acknowledged; they are the
// defaults.
var durable = []string{"--innodb-flush-log-at-trx-commit=1", "--innodb-flush-method=fsync", "--innodb-doublewrite=1",
	"--innodb-buffer-pool-size=128M"}

// durablePostgreSQL are such settings of PostgreSQL; they are the defaults, too.
var durablePostgreSQL = []string{"-c", "fsync=on", "-c", "synchronous_commit=on", "-c", "full_page_writes=on"}
