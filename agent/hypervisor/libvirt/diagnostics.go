package libvirt

import (
	"context"
	"encoding/xml"
	"fmt"
	"strings"

	"github.com/openberth/berth/agent/hypervisor"
	"github.com/openberth/berth/agent/hypervisor/libvirt/rpc"
	"github.com/openberth/berth/fault"
)

// Diagnostics returns what a running guest uses, as libvirt counts it.
func (d *Driver) Diagnostics(ctx context.Context, id string) (out hypervisor.Diagnostics, err error) {
	c, found, err := runningGuest(ctx, d, id)
	if err != nil {
		return out, err
	}
	stats, err := rpc.Stats(ctx, c, found.Domain)
	if err != nil {
		return out, fault.Wrap("", err)
	}
	text, err := c.XML(ctx, found.Domain, rpc.Live)
	if err != nil {
		return out, fault.Wrap("", err)
	}
	var live liveDomain
	if err := xml.Unmarshal([]byte(text), &live); err != nil {
		return out, fault.New(fault.Unavailable, "cannot read the definition of guest %s: %w", id, err)
	}
	return diagnose(stats, live, d.filesOf(found.UUID, found.guest).ConfigDrive), nil
}

// liveDomain is the part of the definition of a running domain that diagnostics show.
type liveDomain struct {
	Type       string `xml:"type,attr"`
	Interfaces []struct {
		MAC struct {
			Address string `xml:"address,attr"`
		} `xml:"mac"`
		Target struct {
			Dev string `xml:"dev,attr"`
		} `xml:"target"`
	} `xml:"devices>interface"`
}

// stateNames are the states of a domain in the words of the Compute API, by libvirt's numbers.
var stateNames = map[int64]string{int64(rpc.Running): "running", int64(rpc.Paused): "paused",
	int64(rpc.Shutdown): "shutdown", int64(rpc.Shutoff): "shutdown", int64(rpc.Crashed): "crashed"}

// diagnose converts the statistics of a domain. configDrive is the path of the guest's config drive.
func diagnose(stats map[string]any, live liveDomain, configDrive string) hypervisor.Diagnostics {
	number := func(format string, args ...any) int64 {
		n, _ := wholeNumber(stats[fmt.Sprintf(format, args...)])
		return n
	}
	text := func(format string, args ...any) string {
		s, _ := stats[fmt.Sprintf(format, args...)].(string)
		return s
	}
	out := hypervisor.Diagnostics{Driver: "libvirt", Hypervisor: live.Type, State: stateNames[number("state.state")],
		MemoryKB: number("balloon.maximum"), UsedKB: number("balloon.rss")}
	for i := range number("vcpu.maximum") {
		if time, online := wholeNumber(stats[fmt.Sprintf("vcpu.%d.time", i)]); online {
			out.CPUs = append(out.CPUs, hypervisor.CPUStats{ID: int(i), Time: time})
		}
	}
	for i := range number("block.count") {
		errors, known := wholeNumber(stats[fmt.Sprintf("block.%d.errors", i)])
		if !known {
			errors = -1
		}
		if strings.TrimSpace(text("block.%d.path", i)) == configDrive {
			out.ConfigDrive = true
		}
		out.Disks = append(out.Disks, hypervisor.DiskStats{Name: text("block.%d.name", i),
			ReadBytes: number("block.%d.rd.bytes", i), ReadRequests: number("block.%d.rd.reqs", i),
			WriteBytes: number("block.%d.wr.bytes", i), WriteRequests: number("block.%d.wr.reqs", i), Errors: errors})
	}
	for i := range number("net.count") {
		nic := hypervisor.NICStats{Name: text("net.%d.name", i),
			RXOctets: number("net.%d.rx.bytes", i), RXPackets: number("net.%d.rx.pkts", i),
			RXErrors: number("net.%d.rx.errs", i), RXDropped: number("net.%d.rx.drop", i),
			TXOctets: number("net.%d.tx.bytes", i), TXPackets: number("net.%d.tx.pkts", i),
			TXErrors: number("net.%d.tx.errs", i), TXDropped: number("net.%d.tx.drop", i)}
		for _, of := range live.Interfaces {
			if of.Target.Dev == nic.Name {
				nic.MAC = of.MAC.Address
			}
		}
		out.NICs = append(out.NICs, nic)
	}
	return out
}

// wholeNumber returns a number of libvirt's statistics; ok is false for another value.
func wholeNumber(value any) (n int64, ok bool) {
	switch value := value.(type) {
	case int32:
		return int64(value), true
	case uint32:
		return int64(value), true
	case int64:
		return value, true
	case uint64:
		return int64(value), true // counters of one guest do not reach 2^63
	}
	return 0, false
}
