package main

import (
	"bytes"
	"embed"
	"fmt"
	"slices"
	"strings"
	"text/template"
)

//go:embed files
var files embed.FS

// unit is one systemd unit.
type unit struct {
	Name         string // of the state directory below /var/lib/berth
	Unit         string // without .service
	Description  string
	Command      string // of berth
	Config       string // in /etc/berth
	Stateless    bool   // keeps nothing; has the cloud of /etc/berth/clouds.yaml
	User         string // empty: root
	After        []string
	Conflicts    []string
	Hardware     bool // reads and writes /sys, and the network by netlink
	ReadWrite    []string
	Capabilities []capability
}

// capability is a capability of a unit and why it needs it.
type capability struct{ Name, Reason string }

// agentCapabilities are those of the agent. It runs as root, because only root may write to /sys and call libvirt
// without a further account.
var agentCapabilities = []capability{
	{"CAP_NET_ADMIN", "sets VFs and makes bridges, tunnels and rules by rtnetlink and nft"},
	{"CAP_NET_BIND_SERVICE", "dnsmasq listens on the ports 53 and 67"},
	{"CAP_NET_RAW", "dnsmasq sends to guests that have no address; metadata are served on one interface"},
	{"CAP_SETUID", "dnsmasq gives up the rights of root"},
	{"CAP_SETGID", "the same"},
	{"CAP_KILL", "informs and ends dnsmasq, which runs as its own user"},
	{"CAP_DAC_OVERRIDE", "reads, writes and removes disks of guests, which belong to the user of QEMU"},
	{"CAP_CHOWN", "gives disks of guests to the user of QEMU"},
	{"CAP_FOWNER", "sets the modes of these files"},
	{"CAP_SYS_PTRACE", "reaches the display of a guest below /proc/PID/root of libvirt"},
}

// agentWrites are the directories that the agent writes beside its state. A minus sign permits their absence.
var agentWrites = []string{"/var/lib/berth/instances", "-/run/lock/berth", "-/run/libvirt"}

// libvirtUnits are those of libvirt's one daemon, and of its separate ones.
var libvirtUnits = []string{"libvirtd.service", "virtqemud.socket", "virtproxyd.socket"}

var controllers = []string{"placement", "compute", "network", "image"}

// units returns all units: `berth up` as berth.service, each service alone, and the agent.
func units() []unit {
	var alone []string
	for _, name := range controllers {
		alone = append(alone, "berth-"+name+".service")
	}
	list := []unit{{Name: "up", Unit: "berth", Description: "Berth cloud on one machine: all services and the agent",
		Command: "up", Config: "berth.conf", Hardware: true, After: libvirtUnits,
		Conflicts: append(alone, "berth-agent.service"), ReadWrite: agentWrites, Capabilities: agentCapabilities}}
	for _, name := range controllers {
		u := unit{Name: name, Unit: "berth-" + name, Description: "Berth " + name + " service", Command: name + " run",
			Config: "berth.conf", User: "berth"}
		if name == "compute" {
			u.Command = name
		}
		if name != "placement" {
			u.After = []string{"berth-placement.service"}
		}
		list = append(list, u)
	}
	list = append(list, unit{Name: "audit", Unit: "berth-audit", Description: "Berth audit: differences between services",
		Command: "audit run", Config: "berth.conf", User: "berth", Stateless: true},
		unit{Name: "console", Unit: "berth-console", Description: "Berth console: web pages of a cloud",
			Command: "console", Config: "berth.conf", User: "berth", Stateless: true})
	return append(list, unit{Name: "agent", Unit: "berth-agent", Description: "Berth agent of this host",
		Command: "agent run", Config: "agent.conf", Hardware: true,
		After:     append(slices.Clone(libvirtUnits), "berth-compute.service"),
		ReadWrite: agentWrites, Capabilities: agentCapabilities})
}

// text returns the file of a unit.
func (u unit) text() ([]byte, error) {
	t, err := template.New("unit.service").Funcs(template.FuncMap{"join": strings.Join}).
		ParseFS(files, "files/unit.service")
	if err != nil {
		return nil, fmt.Errorf("unit template: %w", err)
	}
	var out bytes.Buffer
	err = t.Execute(&out, u)
	return out.Bytes(), err
}
