package server

import (
	"net/http"
	"time"

	api "github.com/openberth/berth/api/placement"
	"github.com/openberth/berth/fault"
	"github.com/openberth/berth/placement/store"
	"github.com/openberth/berth/resource"
)

func classPath(name resource.Class) string { return "/resource_classes/" + string(name) }

func (c *call) classDoc(name resource.Class) object {
	return object{"name": name, "links": []api.Link{{Rel: "self", Href: c.Prefix() + classPath(name)}}}
}

func (c *call) class() resource.Class { return resource.Class(c.R.PathValue("name")) }

func (c *call) listClasses() error {
	list, err := c.server.store.Classes(c.Context())
	if err != nil {
		return err
	}
	docs := make([]object, len(list))
	for i, class := range list {
		docs[i] = c.classDoc(class.Name)
	}
	c.setModified(newest(list, func(class store.Class) time.Time { return class.Modified }))
	return c.sendJSON(http.StatusOK, object{"resource_classes": docs})
}

func (c *call) showClass() error {
	class, err := c.server.store.Class(c.Context(), c.class())
	if err != nil {
		return err
	}
	c.setModified(class.Modified)
	return c.sendJSON(http.StatusOK, c.classDoc(class.Name))
}

func (c *call) createClass() error {
	var in struct {
		Name resource.Class `json:"name"`
	}
	if err := c.read(api.BodyClass, &in); err != nil {
		return err
	}
	if err := c.server.store.CreateClass(c.Context(), in.Name); err != nil {
		return err
	}
	c.setLocation(classPath(in.Name))
	return c.WriteStatus(http.StatusCreated)
}

// putClass creates a class if it does not exist. Up to microversion 1.6 it renames a class.
func (c *call) putClass() error {
	if c.version <= lastClassRename {
		return c.renameClass()
	}
	name := c.class()
	if !resource.IsCustom(string(name)) {
		return fault.New(fault.Invalid, "The resource class %q is not valid: "+
			"a custom class is CUSTOM_ followed by A-Z, 0-9 and _, 255 characters at most", name)
	}
	created, err := c.server.store.EnsureClass(c.Context(), name)
	if err != nil {
		return err
	}
	c.setLocation(classPath(name))
	return c.WriteStatus(createdStatus(created))
}

func (c *call) renameClass() error {
	if err := c.CheckBodyType(); err != nil {
		return err
	}
	var in struct {
		Name resource.Class `json:"name"`
	}
	if err := c.read(api.BodyClass, &in); err != nil {
		return err
	}
	change, err := c.server.store.RenameClass(c.Context(), c.class(), in.Name)
	if err != nil {
		return err
	}
	c.server.names.Forget(c.class(), "")
	c.refresh(change)
	return c.sendJSON(http.StatusOK, c.classDoc(in.Name))
}

func (c *call) deleteClass() error {
	if err := c.server.store.DeleteClass(c.Context(), c.class()); err != nil {
		return err
	}
	c.server.names.Forget(c.class(), "")
	return c.WriteStatus(http.StatusNoContent)
}
