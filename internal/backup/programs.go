package backup

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/openberth/berth/fault"
	"github.com/openberth/berth/sqldb"
)

// dump saves a database of a server into a new file, as it is at one moment, with the program that comes with it.
func dump(ctx context.Context, l sqldb.Location, file string) error {
	out, err := os.OpenFile(file, os.O_CREATE|os.O_WRONLY|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	if l.Dialect == sqldb.PostgreSQL {
		err = run(postgreSQL(ctx, l, "pg_dump", "--clean", "--if-exists", "--no-owner"), nil, out)
	} else {
		var dir string
		if dir, err = os.MkdirTemp("", "berth-backup-"); err == nil {
			err = errors.Join(runMariaDB(ctx, l, dir, "mariadb-dump", []string{"--single-transaction", "--quick",
				"--skip-lock-tables"}, nil, out), os.RemoveAll(dir))
		}
	}
	return errors.Join(err, out.Sync(), out.Close())
}

// load runs a dump in a database of a server. On PostgreSQL it is one transaction.
func load(ctx context.Context, l sqldb.Location, file string) error {
	in, err := os.Open(file)
	if err != nil {
		return err
	}
	defer in.Close()
	if l.Dialect == sqldb.PostgreSQL {
		return run(postgreSQL(ctx, l, "psql", "--quiet", "--single-transaction", "--set=ON_ERROR_STOP=1"), in, nil)
	}
	dir, err := os.MkdirTemp("", "berth-restore-")
	if err != nil {
		return err
	}
	return errors.Join(runMariaDB(ctx, l, dir, "mariadb", nil, in, nil), os.RemoveAll(dir))
}

// runMariaDB runs a program of MariaDB for a database. The password is in a file that only this user can read.
func runMariaDB(ctx context.Context, l sqldb.Location, dir, program string, args []string, in, out *os.File) error {
	quote := func(text string) string {
		return `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`, "\n", `\n`).Replace(text) + `"`
	}
	text := fmt.Sprintf("[client]\nhost=%s\nport=%d\nuser=%s\npassword=%s\n", quote(l.Host), l.Port, quote(l.User),
		quote(l.Password))
	for option, name := range map[string]string{"ssl_ca": "ssl-ca", "ssl_cert": "ssl-cert", "ssl_key": "ssl-key",
		"unix_socket": "socket"} {
		if value := l.Options.Get(option); value != "" {
			text += name + "=" + quote(value) + "\n"
		}
	}
	if l.Options.Get("ssl_ca") != "" {
		text += "ssl-verify-server-cert\n"
	}
	if l.Options.Get("unix_socket") == "" {
		text += "protocol=tcp\n" // otherwise the program takes the socket of this machine for localhost
	}
	file := filepath.Join(dir, "client.cnf")
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		return err
	}
	args = append([]string{"--defaults-file=" + file}, args...)
	return run(exec.CommandContext(ctx, program, append(args, l.Database)...), in, out)
}

// postgreSQL returns a command of a program of PostgreSQL for a database.
func postgreSQL(ctx context.Context, l sqldb.Location, program string, args ...string) *exec.Cmd {
	args = append(args, "--no-password", "--username", l.User, "--dbname", l.Database)
	if l.Host != "" {
		args = append(args, "--host", l.Host, "--port", fmt.Sprint(l.Port))
	}
	cmd := exec.CommandContext(ctx, program, args...)
	cmd.Env = append(os.Environ(), "PGPASSWORD="+l.Password)
	for option, name := range map[string]string{"sslmode": "PGSSLMODE", "sslrootcert": "PGSSLROOTCERT",
		"sslcert": "PGSSLCERT", "sslkey": "PGSSLKEY", "options": "PGOPTIONS",
		"target_session_attrs": "PGTARGETSESSIONATTRS"} {
		if value := l.Options.Get(option); value != "" {
			cmd.Env = append(cmd.Env, name+"="+value)
		}
	}
	return cmd
}

// run runs a program with a file as its input or its output. The error has what it printed.
func run(cmd *exec.Cmd, in, out *os.File) error {
	program := filepath.Base(cmd.Path)
	var messages bytes.Buffer
	if in != nil {
		cmd.Stdin = in
	}
	cmd.Stderr = &messages
	if out != nil {
		cmd.Stdout = out
	}
	err := cmd.Run()
	switch {
	case errors.Is(err, exec.ErrNotFound):
		return fault.New(fault.Unavailable, "%s is not installed; install the client programs of the database server "+
			"(mariadb-client, postgresql-client)", program)
	case err != nil:
		return fault.New(fault.Unavailable, "%s failed: %w: %s", program, err,
			strings.TrimSpace(messages.String()))
	}
	return nil
}
