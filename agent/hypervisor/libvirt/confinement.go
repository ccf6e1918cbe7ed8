package libvirt

import (
	"context"
	"encoding/xml"
	"slices"
	"strings"

	"github.com/openberth/berth/agent/hypervisor/libvirt/rpc"
	"github.com/openberth/berth/fault"
)

// Remarks about a host whose guests could harm it.
const (
	unconfined = "guests are confined by their user alone: libvirt has no security module; enable AppArmor or SELinux, " +
		"and do not set security_driver to none in /etc/libvirt/qemu.conf"
	asRoot = "guests run as root: set user and group in /etc/libvirt/qemu.conf to an unprivileged user, and " +
		"restart libvirtd"
)

// securityModel is the element secmodel of libvirt's capabilities. The base label of the model dac is the user and the
// group of QEMU, such as +64055:+64055, for each type of domain.
type securityModel struct {
	Model  string   `xml:"model"`
	Labels []string `xml:"baselabel"`
}

// confinement returns what is missing in the confinement of guests on this host, a remark each.
func confinement(ctx context.Context, c *rpc.Client) ([]string, error) {
	text, err := c.Capabilities(ctx)
	if err != nil {
		return nil, err
	}
	return readConfinement(text)
}

// readConfinement reads libvirt's capabilities. Without the model dac, QEMU has the user of libvirtd, which is root.
func readConfinement(capabilities string) (remarks []string, err error) {
	var read struct {
		Models []securityModel `xml:"host>secmodel"`
	}
	if err := xml.Unmarshal([]byte(capabilities), &read); err != nil {
		return nil, fault.New(fault.Internal, "libvirt's capabilities cannot be read: %w", err)
	}
	module, unprivileged := false, false
	for _, m := range read.Models {
		switch m.Model {
		case "apparmor", "selinux":
			module = true
		case "dac":
			unprivileged = len(m.Labels) > 0 && !slices.ContainsFunc(m.Labels, func(label string) bool {
				return strings.HasPrefix(label, "+0:")
			})
		}
	}
	if !unprivileged {
		remarks = append(remarks, asRoot)
	}
	if !module {
		remarks = append(remarks, unconfined)
	}
	return remarks, nil
}
