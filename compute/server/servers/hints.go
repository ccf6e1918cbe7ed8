package servers

import (
	"context"
	"encoding/json"

	"github.com/google/uuid"

	"github.com/openberth/berth/api/edge"
	"github.com/openberth/berth/compute/lifecycle"
	"github.com/openberth/berth/compute/server/request"
	"github.com/openberth/berth/fault"
)

// refusedHints are the hints of Nova's filters that Berth does not have, with the reasons. Other hints are unknown.
var refusedHints = map[string]string{
	"build_near_host_ip": "hosts have no addresses that the scheduler knows; use an availability zone",
	"query":              "require traits in the flavor or the image",
	"target_cell":        "Berth has no cells",
	"different_cell":     "Berth has no cells",
	"cidr":               "hosts have no addresses that the scheduler knows; use an availability zone",
}

// hints are the scheduler hints of a new server.
type hints struct {
	group           string   // id of its server group
	same, different []string // ids of servers
}

// readHints reads the scheduler hints of a new server and removes them from the keys of the body.
func readHints(c *request.Call, others map[string]json.RawMessage) (h hints, err error) {
	for _, key := range []string{"os:scheduler_hints", "OS-SCH-HNT:scheduler_hints"} {
		raw, given := others[key]
		delete(others, key)
		if !given || edge.IsNull(raw) {
			continue
		}
		var hints map[string]json.RawMessage
		if err := json.Unmarshal(raw, &hints); err != nil {
			return h, fault.New(fault.Invalid, "Invalid input for %s: it should be an object", key)
		}
		o := c.NewObject(key, hints)
		if o.Text("group", &h.group, 255); h.group != "" {
			if _, err := uuid.Parse(h.group); err != nil {
				o.Invalid("group", "it is %q, and should be the UUID of a server group", edge.Clip(h.group))
			}
		}
		h.same, h.different = readServers(o, "same_host"), readServers(o, "different_host")
		o.Reasons = refusedHints
		if err := o.Finish(); err != nil {
			return h, err
		}
	}
	return h, nil
}

// maxHinted is how many servers a hint may name.
const maxHinted = 100

// readServers reads a hint that is the UUID of a server, or a list of them.
func readServers(o *edge.Object, key string) (ids []string) {
	raw, given := o.Keys[key]
	if delete(o.Keys, key); !given || edge.IsNull(raw) {
		return nil
	}
	one := ""
	if err := json.Unmarshal(raw, &one); err == nil {
		ids = []string{one}
	} else if err := json.Unmarshal(raw, &ids); err != nil {
		o.Invalid(key, "it should be the UUID of a server, or a list of them")
		return nil
	}
	if len(ids) > maxHinted {
		o.Invalid(key, "it has %d elements; at most %d are allowed", len(ids), maxHinted)
	}
	for i, id := range ids {
		parsed, err := uuid.Parse(id)
		if err != nil {
			o.Invalid(key, "%q is not the UUID of a server", edge.Clip(id))
		}
		ids[i] = parsed.String()
	}
	return ids
}

// checkGroup returns fault.Invalid unless the caller may put servers into a group: it is one of its project.
func checkGroup(c *request.Call, in Store, id string) error {
	if id == "" {
		return nil
	}
	g, err := in.ServerGroup(c.R.Context(), id)
	if fault.Is(err, fault.NotFound) || err == nil && g.Project != c.Who.Project && !c.Who.IsAdmin() {
		return fault.New(fault.Invalid, "Instance group %s could not be found.", id)
	}
	return err
}

// groupsOf lists the ids of the server groups of a server: at most one.
func groupsOf(ctx context.Context, in Store, found lifecycle.Server) ([]string, error) {
	if found.Group == "" {
		return []string{}, nil
	}
	_, err := in.ServerGroup(ctx, found.Group)
	if fault.Is(err, fault.NotFound) { // deleted
		return []string{}, nil
	}
	return []string{found.Group}, err
}
