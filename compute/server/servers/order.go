package servers

import (
	"cmp"
	"context"
	"net/url"
	"slices"
	"strconv"

	"github.com/openberth/berth/api/compute"
	"github.com/openberth/berth/api/edge"
	"github.com/openberth/berth/compute/lifecycle"
	"github.com/openberth/berth/compute/server/request"
	"github.com/openberth/berth/fault"
)

// sortKey is one key of the order of a list.
type sortKey struct {
	field  field
	desc   bool
	number bool // its values are whole numbers
}

// numbers are the attributes whose values are whole numbers.
var numbers = []string{"launch_index", "power_state", "progress"}

// sortable are the attributes by which a list may be sorted; locked since 2.73.
var sortable = []string{"access_ip_v4", "access_ip_v6", "auto_disk_config", "availability_zone", "config_drive",
	"created_at", "display_description", "display_name", "host", "hostname", "image_ref", "instance_type_id", "kernel_id",
	"key_name", "launch_index", "launched_at", "locked_by", "node", "power_state", "progress", "project_id", "ramdisk_id",
	"root_device_name", "task_state", "terminated_at", "updated_at", "user_id", "uuid", "vm_state"}

// ignoredOrder are the keys that the Compute API accepts and ignores before 2.75; locked only before 2.73.
var ignoredOrder = []string{"architecture", "cell_name", "cleaned", "default_ephemeral_device", "default_swap_device",
	"deleted", "deleted_at", "disable_terminate", "ephemeral_gb", "ephemeral_key_uuid", "id", "key_data", "launched_on",
	"locked", "memory_mb", "os_type", "reservation_id", "root_gb", "shutdown_terminate", "user_data", "vcpus", "vm_mode"}

// readOrder reads sort_key and sort_dir. It returns nil for the order of the store: by creation, the newest first.
func readOrder(c *request.Call, q url.Values) (order []sortKey, err error) {
	keys, directions := slices.Clone(q["sort_key"]), slices.Clone(q["sort_dir"])
	if len(keys) == 0 {
		keys = []string{"created_at"}
	}
	if len(directions) == 0 {
		directions = []string{"desc"}
	}
	for _, d := range directions {
		if d != "asc" && d != "desc" {
			return nil, fault.New(fault.Invalid, "Unknown sort direction, must be 'desc' or 'asc'; it is %q", edge.Clip(d))
		}
	}
	var names []string
	for i, key := range keys {
		known := slices.Contains(sortable, key) || key == "locked" && c.Has(compute.LockReason)
		if !known && (c.Has(compute.StrictRequests) || !slices.Contains(ignoredOrder, key)) {
			return nil, fault.New(fault.Invalid, "Invalid input for query parameters sort_key: servers cannot be sorted by %q",
				edge.Clip(key))
		}
		if !known { // without its direction
			if i < len(directions) {
				directions[i] = ""
			}
			continue
		}
		if (key == "host" || key == "node") && !c.Who.IsAdmin() {
			return nil, fault.New(fault.Forbidden, "Only administrators can sort servers by %s", key)
		}
		names = append(names, key)
	}
	directions = slices.DeleteFunc(directions, func(d string) bool { return d == "" })
	if len(directions) > len(names) && len(q["sort_dir"]) > 0 && len(q["sort_key"]) > 0 {
		return nil, fault.New(fault.Invalid, "Sort direction size exceeds sort key size")
	}
	usual := "desc"
	if len(directions) > 0 {
		usual = directions[0]
	}
	for i, name := range append(names, "created_at", "uuid") {
		direction := usual
		if i < len(directions) && i < len(names) {
			direction = directions[i]
		}
		order = append(order, sortKey{serverFields[name], direction == "desc", slices.Contains(numbers, name)})
	}
	if usual == "desc" && (len(names) == 0 || len(names) == 1 && names[0] == "created_at") {
		return nil, nil
	}
	return order, nil
}

// compareBy compares two servers by the keys of an order.
func compareBy(order []sortKey, a, b lifecycle.Server) int {
	for _, key := range order {
		x, y := key.field(a), key.field(b)
		by := cmp.Compare(x, y)
		if key.number {
			n, _ := strconv.Atoi(x) // made by serverFields
			m, _ := strconv.Atoi(y)
			by = cmp.Compare(n, m)
		}
		if key.desc {
			by = -by
		}
		if by != 0 {
			return by
		}
	}
	return 0
}

// sortedPage returns the servers that follow the marker in the order, at most limit. The marker is any server: since
// the last page it may have been deleted, or have another status. nil: there is none.
func sortedPage(list []lifecycle.Server, order []sortKey, marker *lifecycle.Server, limit int) []lifecycle.Server {
	list = slices.DeleteFunc(list, func(s lifecycle.Server) bool {
		return marker != nil && compareBy(order, s, *marker) <= 0
	})
	slices.SortFunc(list, func(a, b lifecycle.Server) int { return compareBy(order, a, b) })
	return list[:min(limit, len(list))]
}

// markerOf returns the server of a marker; nil without a marker. It returns fault.Invalid if there is none in the
// project; empty: in any.
func markerOf(ctx context.Context, s Store, marker, project string) (*lifecycle.Server, error) {
	if marker == "" {
		return nil, nil
	}
	last, err := s.Read(ctx, marker)
	if fault.Is(err, fault.NotFound) || err == nil && project != "" && project != last.Project {
		return nil, fault.New(fault.Invalid, "marker [%s] not found", edge.Clip(marker))
	}
	return &last, err
}
