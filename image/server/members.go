package server

import (
	"maps"
	"net/http"
	"slices"
	"time"

	"github.com/openberth/berth/fault"
	"github.com/openberth/berth/image/store"
)

func (s *server) addTag(c *call) error {
	return s.changeTags(c, func(i *store.Image, tag string) error {
		all := []any{tag}
		for _, t := range i.Tags {
			all = append(all, t)
		}
		return setTags(i, all)
	})
}

func (s *server) removeTag(c *call) error {
	return s.changeTags(c, func(i *store.Image, tag string) error {
		if !slices.Contains(i.Tags, tag) {
			return fault.New(fault.NotFound, "image %s has no tag %q", i.ID, tag)
		}
		i.Tags = slices.DeleteFunc(i.Tags, func(t string) bool { return t == tag })
		return nil
	})
}

func (s *server) changeTags(c *call, change func(i *store.Image, tag string) error) error {
	i, err := c.find("modify_image")
	if err != nil {
		return err
	}
	if _, err = s.Store.Change(i.ID, func(i *store.Image) error { return change(i, c.R.PathValue("tag")) }); err != nil {
		return err
	}
	return c.WriteStatus(http.StatusNoContent)
}

// memberView returns the document of a member.
func memberView(i store.Image, member string) map[string]any {
	m := i.Members[member]
	return map[string]any{"image_id": i.ID, "member_id": member, "status": m.Status,
		"created_at": m.Created.Format(time.RFC3339), "updated_at": m.Updated.Format(time.RFC3339),
		"schema": "/v2/schemas/member"}
}

// listMembers is GET /v2/images/{id}/members. A member sees only itself.
func (s *server) listMembers(c *call) error {
	i, err := c.find("get_members")
	if err != nil {
		return err
	}
	list := []any{}
	for _, member := range slices.Sorted(maps.Keys(i.Members)) {
		if c.Who.IsAdmin() || c.Who.Project == i.Owner || c.Who.Project == member {
			list = append(list, memberView(i, member))
		}
	}
	return c.WriteJSON(http.StatusOK, map[string]any{"members": list, "schema": "/v2/schemas/members"})
}

// findMember returns the image and the member of the path.
func (c *call) findMember(rule string) (i store.Image, member string, err error) {
	member = c.R.PathValue("member")
	if i, err = c.find("get_image"); err != nil {
		return i, member, err
	}
	_, known := i.Members[member]
	if !known || !c.Who.IsAdmin() && c.Who.Project != i.Owner && c.Who.Project != member && !c.Who.Has("service") {
		return i, member, fault.New(fault.NotFound, "image %s is not shared with project %s", i.ID, member)
	}
	target := c.target(i)
	target["member_id"] = member
	return i, member, c.Authorize(rule, target)
}

func (s *server) showMember(c *call) error {
	i, member, err := c.findMember("get_member")
	if err != nil {
		return err
	}
	return c.WriteJSON(http.StatusOK, memberView(i, member))
}

func (s *server) addMember(c *call) error {
	i, err := c.find("add_member")
	if err != nil {
		return err
	}
	var body struct{ Member string }
	if err := c.decode(&body); err != nil {
		return err
	}
	if body.Member == "" || len(body.Member) > 255 {
		return fault.New(fault.Invalid, "member must be the id of a project of 1 to 255 bytes")
	}
	return s.changeMembers(c, i, body.Member, func(i *store.Image) error {
		_, known := i.Members[body.Member]
		switch {
		case i.Visibility != "shared":
			return fault.New(fault.Forbidden, "image %s has visibility %s; only a shared image has members", i.ID,
				i.Visibility)
		case known:
			return fault.New(fault.Conflict, "image %s is shared with project %s already", i.ID, body.Member)
		case len(i.Members) >= maxEntries:
			return fault.New(fault.Conflict, "image %s has %d members, and more are not permitted", i.ID, maxEntries)
		}
		members := maps.Clone(i.Members)
		if members == nil {
			members = map[string]store.Member{}
		}
		now := time.Now().UTC()
		members[body.Member] = store.Member{Status: "pending", Created: now, Updated: now}
		i.Members = members
		return nil
	})
}

func (s *server) changeMember(c *call) error {
	i, member, err := c.findMember("modify_member")
	if err != nil {
		return err
	}
	var body struct{ Status string }
	if err := c.decode(&body); err != nil {
		return err
	}
	if !slices.Contains([]string{"pending", "accepted", "rejected"}, body.Status) {
		return fault.New(fault.Invalid, "status must be pending, accepted or rejected")
	}
	return s.changeMembers(c, i, member, func(i *store.Image) error {
		m := i.Members[member]
		m.Status, m.Updated = body.Status, time.Now().UTC()
		i.Members[member] = m
		return nil
	})
}

// changeMembers changes the members of an image and answers with one of them.
func (s *server) changeMembers(c *call, i store.Image, member string, change func(*store.Image) error) error {
	i, err := s.Store.Change(i.ID, change)
	if err != nil {
		return err
	}
	return c.WriteJSON(http.StatusOK, memberView(i, member))
}

func (s *server) removeMember(c *call) error {
	i, member, err := c.findMember("delete_member")
	if err != nil {
		return err
	}
	if _, err = s.Store.Change(i.ID, func(i *store.Image) error {
		delete(i.Members, member)
		return nil
	}); err != nil {
		return err
	}
	return c.WriteStatus(http.StatusNoContent)
}
