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
	"same_host":          "use a server group with the policy affinity",
	"different_host":     "use a server group with the policy anti-affinity",
	"build_near_host_ip": "hosts have no addresses that the scheduler knows; use an availability zone",
	"query":              "require traits in the flavor or the image",
	"target_cell":        "Berth has no cells",
	"different_cell":     "Berth has no cells",
	"cidr":               "hosts have no addresses that the scheduler knows; use an availability zone",
}

// readHints reads the scheduler hints of a new server and removes them from the keys of the body. group is the id of
// its server group.
func readHints(c *request.Call, others map[string]json.RawMessage) (group string, err error) {
	for _, key := range []string{"os:scheduler_hints", "OS-SCH-HNT:scheduler_hints"} {
		raw, given := others[key]
		delete(others, key)
		if !given || edge.IsNull(raw) {
			continue
		}
		var hints map[string]json.RawMessage
		if err := json.Unmarshal(raw, &hints); err != nil {
			return "", fault.New(fault.Invalid, "Invalid input for %s: it should be an object", key)
		}
		o := c.NewObject(key, hints)
		if o.Text("group", &group, 255); group != "" {
			if _, err := uuid.Parse(group); err != nil {
				o.Invalid("group", "it is %q, and should be the UUID of a server group", edge.Clip(group))
			}
		}
		o.Reasons = refusedHints
		if err := o.Finish(); err != nil {
			return "", err
		}
	}
	return group, nil
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
