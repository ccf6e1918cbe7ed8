package bench

import (
	"crypto/tls"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/openberth/berth/internal/testenv"
)

// Build builds the berth program of the module that contains the working directory, with these build tags and without
// information for debuggers, which takes as long to link as the program. It builds it in a place that all tests of the
// machine share, because go links no program again that is there and up to date; to link takes 5 s of processor time.
func Build(dir string, tags ...string) (program string, err error) {
	program = filepath.Join(dir, "berth")
	shared, unlock, err := testenv.Shared(strings.Join(append([]string{"berth"}, tags...), "-"))
	if err != nil {
		return program, buildAt(program, tags)
	}
	defer unlock()
	if err := buildAt(shared, tags); err != nil {
		return "", err
	}
	if os.Link(shared, program) == nil {
		return program, nil
	}
	if out, err := exec.Command("cp", shared, program).CombinedOutput(); err != nil { // on another file system
		return "", fmt.Errorf("cp %s %s: %w\n%s", shared, program, err, out)
	}
	return program, nil
}

func buildAt(path string, tags []string) error {
	build := exec.Command("go", "build", "-tags", strings.Join(tags, ","), "-ldflags=-s -w", "-o", path,
		"github.com/openberth/berth/cmd/berth")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		return fmt.Errorf("go build ./cmd/berth: %w\n%s", err, out)
	}
	return nil
}

// Configure writes a placement.conf into dir that names a database and ends with lines.
func Configure(dir, database string, lines ...string) (file string, err error) {
	file = filepath.Join(dir, "placement.conf")
	text := "[api]\nauth_strategy = noauth2\n\n[placement_database]\nconnection = " + database + "\n" + strings.Join(lines,
		"\n") + "\n"
	return file, os.WriteFile(file, []byte(text), 0o600)
}

// SQLite returns the URL of an SQLite database in dir.
func SQLite(dir string) string { return "sqlite:///" + filepath.Join(dir, "placement.db") }

// StartBerth starts `berth placement` on a database, with its placement.conf, which ends with lines, and its log in
// dir. It returns once the server responds.
func StartBerth(program, dir, database string, lines ...string) (*Process, error) {
	file, err := Configure(dir, database, lines...)
	if err != nil {
		return nil, err
	}
	return StartPlacement(filepath.Join(dir, "berth.log"), program, "placement", "--config-file", file, "--data-dir", dir,
		"--listen", "127.0.0.1:0")
}

// StartPlacement starts a program that prints its address as `berth placement` does, with its log in a file. It returns
// once the server responds.
func StartPlacement(log string, args ...string) (*Process, error) {
	began := time.Now()
	p, err := Start(log, args...)
	if err != nil {
		return nil, err
	}
	if p.Addr, err = p.awaitLine("placement: http://", 5*time.Minute); err == nil {
		err = p.await(5 * time.Minute)
	}
	if err != nil {
		return nil, errors.Join(err, p.Stop())
	}
	p.Ready = time.Since(began)
	return p, nil
}

// StartCompute starts `berth compute` with a database in dir and these options, beside the Placement at an address. It
// returns once the server responds.
func StartCompute(program, dir, placement, options string) (*Process, error) {
	return StartComputeAt(program, dir, placement, "127.0.0.1:0", options, nil)
}

// StartComputeAt is StartCompute on an address, host:port. With client, options make it use TLS.
func StartComputeAt(program, dir, placement, listen, options string, client *tls.Config) (*Process, error) {
	file := filepath.Join(dir, "berth.conf")
	text := "[api]\nauth_strategy = noauth2\n" + options
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		return nil, err
	}
	p, err := Start(filepath.Join(dir, "compute.log"), program, "compute", "--config-file", file, "--data-dir", dir,
		"--listen", listen, "--placement-url", "http://"+placement)
	if err != nil {
		return nil, err
	}
	scheme := "http://"
	if p.client = client; client != nil {
		scheme = "https://"
	}
	if p.Addr, err = p.awaitLine("compute: "+scheme, 5*time.Minute); err == nil {
		err = p.await(5 * time.Minute)
	}
	if err != nil {
		return nil, errors.Join(err, p.Stop())
	}
	return p, nil
}

// StartNetwork starts `berth network` on the database in a directory, beside a Placement. It returns once the server
// responds.
func StartNetwork(program, dir, placement string) (*Process, error) {
	file := filepath.Join(dir, "berth.conf")
	if err := os.WriteFile(file, []byte("[api]\nauth_strategy = noauth2\n"), 0o600); err != nil {
		return nil, err
	}
	p, err := Start(filepath.Join(dir, "network.log"), program, "network", "--config-file", file, "--data-dir", dir,
		"--listen", "127.0.0.1:0", "--placement-url", "http://"+placement)
	if err != nil {
		return nil, err
	}
	if p.Addr, err = p.awaitLine("network: http://", 5*time.Minute); err == nil {
		err = p.await(5 * time.Minute)
	}
	if err != nil {
		return nil, errors.Join(err, p.Stop())
	}
	return p, nil
}
