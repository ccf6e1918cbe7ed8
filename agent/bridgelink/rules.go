package bridgelink

import (
	"bytes"
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/openberth/berth/agent/bridgeplan"
	"github.com/openberth/berth/fault"
)

// programTime limits a call of nft.
const programTime = 20 * time.Second

// SetRules gives a text to `nft -f -`, which changes all or nothing. Unavailable: nft is not installed, or it refuses
// the text.
func (Kernel) SetRules(ctx context.Context, text string) error {
	_, err := nft(ctx, text, "-f", "-")
	return err
}

// Rules returns what the kernel has of Berth's tables; empty: none.
func (Kernel) Rules(ctx context.Context) (string, error) {
	var all string
	for _, family := range []string{"inet", "bridge"} {
		text, err := nft(ctx, "", "list", "table", family, bridgeplan.Table)
		if err != nil && !strings.Contains(fault.TextOf(err), "No such file") {
			return "", err
		}
		all += text
	}
	return all, nil
}

// nft runs the program nft and returns its output.
func nft(ctx context.Context, input string, args ...string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, programTime)
	defer cancel()
	cmd := exec.CommandContext(ctx, "nft", args...)
	cmd.WaitDelay = time.Second
	cmd.Stdin = strings.NewReader(input)
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	err := cmd.Run()
	switch {
	case errors.Is(err, exec.ErrNotFound):
		return "", fault.New(fault.Unavailable, "the program nft is not installed; install the package nftables")
	case err != nil:
		said := strings.TrimSpace(errs.String())
		return "", fault.New(fault.Unavailable, "nft failed: %w: %s", err, said[:min(len(said), 500)])
	}
	return out.String(), nil
}

// Forward makes the kernel forward packets of a version of IP between interfaces. changed reports whether it did not
// before.
func (Kernel) Forward(version int) (changed bool, err error) {
	file, option := filepath.Join(sysctl, "ipv4/ip_forward"), "net.ipv4.ip_forward"
	if version == 6 {
		file, option = filepath.Join(sysctl, "ipv6/conf/all/forwarding"), "net.ipv6.conf.all.forwarding"
	}
	value, err := os.ReadFile(file)
	if err == nil && strings.TrimSpace(string(value)) == "1" {
		return false, nil
	}
	if version == 6 {
		err = keepRouters()
	}
	if err == nil {
		err = os.WriteFile(file, []byte("1"), 0o644)
	}
	if err != nil {
		return false, failure("the host cannot forward packets; set "+option+" to 1", err)
	}
	return true, nil
}

// keepRouters lets interfaces that learn routers from advertisements go on with it when the host forwards packets:
// otherwise the kernel would remove the default route of the host (Documentation/networking/ip-sysctl.rst, accept_ra).
func keepRouters() error {
	files, err := filepath.Glob(filepath.Join(sysctl, "ipv6/conf/*/accept_ra"))
	for _, file := range files {
		value, readErr := os.ReadFile(file)
		link := filepath.Base(filepath.Dir(file))
		if errors.Is(readErr, os.ErrNotExist) || link == "all" || link == "default" {
			continue // an interface that has gone
		}
		if readErr == nil && strings.TrimSpace(string(value)) == "1" {
			readErr = os.WriteFile(file, []byte("2"), 0o644)
		}
		err = errors.Join(err, readErr)
	}
	return err
}
