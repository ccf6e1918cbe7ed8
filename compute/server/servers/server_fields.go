package servers

import (
	"net/netip"
	"strconv"
	"time"

	"github.com/openberth/berth/compute/lifecycle"
)

// field returns an attribute of a server as the text that filters of lists match and by which lists are sorted.
type field func(lifecycle.Server) string

// serverFields are the attributes by the names that the Compute API has for filters and sort keys. Berth's servers have
// no kernel images, RAM disks and names of root devices.
var serverFields = map[string]field{
	"access_ip_v4":        func(s lifecycle.Server) string { return s.AccessIPv4 },
	"access_ip_v6":        func(s lifecycle.Server) string { return s.AccessIPv6 },
	"auto_disk_config":    func(s lifecycle.Server) string { return diskConfig(s.AutoDisk) },
	"availability_zone":   func(s lifecycle.Server) string { return s.HostZone },
	"config_drive":        configDrive,
	"created_at":          func(s lifecycle.Server) string { return timeText(s.Created) },
	"display_description": func(s lifecycle.Server) string { return s.Description },
	"display_name":        func(s lifecycle.Server) string { return s.Name },
	"host":                func(s lifecycle.Server) string { return s.Shown().Host },
	"hostname":            lifecycle.Server.GuestHostname,
	"image_ref":           func(s lifecycle.Server) string { return s.Image },
	"instance_type_id":    func(s lifecycle.Server) string { return s.Shown().Flavor.ID },
	"kernel_id":           empty,
	"key_name":            func(s lifecycle.Server) string { return s.KeyName },
	"launch_index":        launchIndex,
	"launched_at":         func(s lifecycle.Server) string { return timeText(s.Launched) },
	"locked":              func(s lifecycle.Server) string { return strconv.FormatBool(s.Lock != nil) },
	"locked_by":           lockedBy,
	"node":                func(s lifecycle.Server) string { return s.Shown().Host },
	"power_state":         func(s lifecycle.Server) string { return strconv.Itoa(powerState(s)) },
	"progress":            func(lifecycle.Server) string { return "0" },
	"project_id":          func(s lifecycle.Server) string { return s.Project },
	"ramdisk_id":          empty,
	"reservation_id":      reservation,
	"root_device_name":    empty,
	"task_state":          lifecycle.Server.TaskState,
	"terminated_at":       func(s lifecycle.Server) string { return timeText(s.Ended) },
	"updated_at":          func(s lifecycle.Server) string { return timeText(s.Updated) },
	"user_id":             func(s lifecycle.Server) string { return s.User },
	"uuid":                func(s lifecycle.Server) string { return s.ID },
	"vm_state":            lifecycle.Server.VMState,
}

// empty is the field of an attribute that no server has.
func empty(lifecycle.Server) string { return "" }

// configDrive returns config_drive as the Compute API shows it: True or empty.
func configDrive(s lifecycle.Server) string {
	if s.ConfigDrive {
		return "True"
	}
	return ""
}

// timeText returns a time as the text that a filter matches; empty for none.
func timeText(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return t.UTC().Format("2006-01-02 15:04:05.000000")
}

func launchIndex(s lifecycle.Server) string {
	_, index := lifecycle.Reservation(s.ID)
	return strconv.Itoa(index)
}

func reservation(s lifecycle.Server) string {
	id, _ := lifecycle.Reservation(s.ID)
	return id
}

// lockedBy returns who has locked a server: its owner or an administrator.
func lockedBy(s lifecycle.Server) string {
	switch {
	case s.Lock == nil:
		return ""
	case s.Lock.ByAdmin:
		return "admin"
	}
	return "owner"
}

// addressesOf returns the addresses of the ports of a server: of IPv6 or of IPv4.
func addressesOf(s lifecycle.Server, six bool) (list []string) {
	for _, p := range s.Ports {
		for _, ip := range p.FixedIPs {
			at, err := netip.ParseAddr(ip.Address)
			if err == nil && at.Is6() == six {
				list = append(list, ip.Address)
			}
		}
	}
	return list
}
