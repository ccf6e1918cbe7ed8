package bridgelink

import (
	"bytes"
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/vishvananda/netlink"

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

// HasIPv6 reports whether the kernel has IPv6. It has none after a boot with ipv6.disable=1.
func (Kernel) HasIPv6() bool {
	_, err := os.Stat(filepath.Join(sysctl, "ipv6"))
	return !errors.Is(err, os.ErrNotExist)
}

// Forward makes the kernel forward packets of a version of IP between interfaces. changed reports whether it did not
// before. routers are the interfaces whose accept_ra was set to 2 before that, sorted, also if there is an error.
func (Kernel) Forward(version int) (changed bool, routers []string, err error) {
	file, option := filepath.Join(sysctl, "ipv4/ip_forward"), "net.ipv4.ip_forward"
	if version == 6 {
		file, option = filepath.Join(sysctl, "ipv6/conf/all/forwarding"), "net.ipv6.conf.all.forwarding"
	}
	value, err := os.ReadFile(file)
	if err == nil && strings.TrimSpace(string(value)) == "1" {
		return false, nil, nil
	}
	if version == 6 {
		routers, err = keepRouters()
	}
	if err == nil {
		err = os.WriteFile(file, []byte("1"), 0o644)
	}
	if err != nil {
		return false, routers, failure("the host cannot forward packets; set "+option+" to 1", err)
	}
	return true, routers, nil
}

// keepRouters lets the interfaces with a default route from router advertisements accept advertisements when the host
// forwards packets: otherwise the kernel would remove this route (Documentation/networking/ip-sysctl.rst, accept_ra).
// It returns the interfaces that it has changed.
func keepRouters() (changed []string, err error) {
	routes, err := netlink.RouteList(nil, netlink.FAMILY_V6)
	if err != nil {
		return nil, err
	}
	list, err := netlink.LinkList()
	if err != nil {
		return nil, err
	}
	for _, l := range list {
		if !learnsRouter(routes, l.Attrs().Index) {
			continue
		}
		name := l.Attrs().Name
		file := filepath.Join(sysctl, "ipv6/conf", name, "accept_ra")
		value, readErr := os.ReadFile(file)
		if errors.Is(readErr, os.ErrNotExist) {
			continue // the interface has gone
		}
		if readErr == nil && strings.TrimSpace(string(value)) == "1" {
			if readErr = os.WriteFile(file, []byte("2"), 0o644); readErr == nil {
				changed = append(changed, name)
			}
		}
		err = errors.Join(err, readErr)
	}
	slices.Sort(changed)
	return changed, err
}

// learnsRouter reports whether one of some routes of IPv6 is a default route by a link that a router has advertised.
func learnsRouter(routes []netlink.Route, link int) bool {
	return slices.ContainsFunc(routes, func(r netlink.Route) bool {
		at, valid := prefixOf(r.Dst)
		return r.Protocol == syscall.RTPROT_RA && leavesBy(r, link) && (!valid || at.Bits() == 0)
	})
}
