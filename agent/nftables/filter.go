package nftables

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"os/exec"
	"strings"
	"sync"
	"time"

	"github.com/openberth/berth/agent/groupfilter"
	"github.com/openberth/berth/fault"
)

// Filter writes the tables of a host. Log must be set. It is safe for concurrent use.
type Filter struct {
	Log *slog.Logger

	mu      sync.Mutex
	known   bool // current is what was last written
	current groupfilter.Ruleset
	// stale is set until the connections have been compared with the current state.
	stale bool
}

// timeout is how long nft may take.
const timeout = 30 * time.Second

// apply makes the kernel enforce a state. It writes differences only, in one transaction: a failure changes nothing.
func (f *Filter) apply(ctx context.Context, s groupfilter.State) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if err := f.serveBridges(ctx, &s); err != nil {
		return err
	}
	if len(s.Ports) == 0 {
		return f.removeTables(ctx)
	}
	want := groupfilter.Render(s)
	present, err := f.present(ctx, want)
	if err != nil {
		return err
	}
	if !present {
		if err := f.write(ctx, want); err != nil {
			return err
		}
		f.stale = true
	}
	f.known, f.current = true, want
	if !f.stale {
		return nil
	}
	blocked, freed, err := markConnections(s)
	if err != nil {
		return fault.New(fault.Unavailable, "open connections are not compared with the security groups: %w; connections "+
			"that the rules permit no more stay open; it is tried again", err)
	}
	f.stale = false
	if blocked+freed > 0 {
		f.Log.Info("connections compared with security groups", "blocked", blocked, "permitted_again", freed)
	}
	return nil
}

// present reports whether the kernel has a ruleset. If it has neither this one nor the current one, the current one is
// forgotten, so that the tables are replaced.
func (f *Filter) present(ctx context.Context, want groupfilter.Ruleset) (bool, error) {
	out, err := run(ctx, "", "list", "chains")
	if err != nil {
		return false, err
	}
	// both tables have the chain
	has := func(r groupfilter.Ruleset) bool { return strings.Count(out, "chain "+r.Version()+" ") == 2 }
	if f.known && !has(f.current) {
		f.Log.Warn("security groups written again, because another program removed or changed the tables",
			"table", groupfilter.Table)
		f.known = false
	}
	if !f.known {
		f.stale = true
	}
	return has(want), nil
}

// write writes a ruleset: the difference to the current one, or all of it.
func (f *Filter) write(ctx context.Context, want groupfilter.Ruleset) error {
	begin := time.Now()
	text := want.Text()
	if f.known {
		text = f.current.Changes(want)
	}
	_, err := run(ctx, text, "-f", "-")
	if err != nil && f.known { // the kernel may have lost elements that the difference removes
		f.Log.Warn("difference of security groups not written, will replace all", "error", err)
		f.known = false
		_, err = run(ctx, want.Text(), "-f", "-")
	}
	if err != nil {
		return err
	}
	f.Log.Debug("security groups written", "bytes", len(text), "took", time.Since(begin))
	return nil
}

// removeTables removes the tables of a host without ports, if it has them.
func (f *Filter) removeTables(ctx context.Context) error {
	f.known, f.stale = false, false
	out, err := run(ctx, "", "list", "tables")
	if err != nil || !strings.Contains(out, " "+groupfilter.Table+"\n") {
		return err
	}
	return Remove(ctx)
}

// Remove removes Berth's tables: nothing is filtered any more.
func Remove(ctx context.Context) error {
	_, err := run(ctx, groupfilter.Remove(), "-f", "-")
	return err
}

// run runs nft and returns its output.
func run(ctx context.Context, stdin string, args ...string) (string, error) {
	return runProgram(ctx, "nft", stdin, args...)
}

// runProgram runs a program and returns its output.
func runProgram(ctx context.Context, name, stdin string, args ...string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	path, err := exec.LookPath(name)
	if err != nil {
		return "", fault.New(fault.Unavailable, "security groups are not enforced: the program %s is missing; install the "+
			"package %s", name, map[string]string{"nft": "nftables", "ip": "iproute2", "modprobe": "kmod"}[name])
	}
	cmd := exec.CommandContext(ctx, path, args...)
	cmd.Stdin = strings.NewReader(stdin)
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	if err := cmd.Run(); err != nil {
		return "", fault.New(fault.Unavailable, "security groups are not enforced: %s %s: %w: %s; the agent must run as "+
			"root, and the kernel needs br_netfilter, and nf_tables with the families bridge and inet", name,
			strings.Join(args, " "), err, firstLines(errs.String()))
	}
	return out.String(), nil
}

// firstLines shortens what a program has printed.
func firstLines(text string) string {
	lines := strings.Split(strings.TrimSpace(text), "\n")
	if len(lines) > 3 {
		lines = append(lines[:3], fmt.Sprintf("(%d lines more)", len(lines)-3))
	}
	return strings.Join(lines, " ")
}
