package resources

import (
	"net/http"
	"time"

	api "github.com/openberth/berth/api/placement"
	"github.com/openberth/berth/fault"
	"github.com/openberth/berth/placement/server/request"
	"github.com/openberth/berth/placement/store"
	"github.com/openberth/berth/resource"
)

func classPath(name resource.Class) string { return "/resource_classes/" + string(name) }

func classDoc(c *request.Call, name resource.Class) request.Object {
	return request.Object{"name": name, "links": []api.Link{{Rel: "self", Href: c.Prefix() + classPath(name)}}}
}

func className(c *request.Call) resource.Class { return resource.Class(c.R.PathValue("name")) }

func listClasses(c *request.Call) error {
	list, err := c.Service.Store.Classes(c.Context())
	if err != nil {
		return err
	}
	docs := make([]request.Object, len(list))
	for i, class := range list {
		docs[i] = classDoc(c, class.Name)
	}
	c.SetModified(newest(list, func(class store.Class) time.Time { return class.Modified }))
	return c.SendJSON(http.StatusOK, request.Object{"resource_classes": docs})
}

func showClass(c *request.Call) error {
	class, err := c.Service.Store.Class(c.Context(), className(c))
	if err != nil {
		return err
	}
	c.SetModified(class.Modified)
	return c.SendJSON(http.StatusOK, classDoc(c, class.Name))
}

func createClass(c *request.Call) error {
	var in struct {
		Name resource.Class `json:"name"`
	}
	if err := c.Read(api.BodyClass, &in); err != nil {
		return err
	}
	if err := c.Service.Store.CreateClass(c.Context(), in.Name); err != nil {
		return err
	}
	c.SetLocation(classPath(in.Name))
	return c.WriteStatus(http.StatusCreated)
}

// putClass creates a class if it does not exist. Up to microversion 1.6 it renames a class.
func putClass(c *request.Call) error {
	if c.Microversion <= request.LastClassRename {
		return renameClass(c)
	}
	name := className(c)
	if !resource.IsCustom(string(name)) {
		return fault.New(fault.Invalid, "The resource class %q is not valid: "+
			"a custom class is CUSTOM_ followed by A-Z, 0-9 and _, 255 characters at most", name)
	}
	created, err := c.Service.Store.EnsureClass(c.Context(), name)
	if err != nil {
		return err
	}
	c.SetLocation(classPath(name))
	return c.WriteStatus(createdStatus(created))
}

func renameClass(c *request.Call) error {
	if err := c.CheckBodyType(); err != nil {
		return err
	}
	var in struct {
		Name resource.Class `json:"name"`
	}
	if err := c.Read(api.BodyClass, &in); err != nil {
		return err
	}
	change, err := c.Service.Store.RenameClass(c.Context(), className(c), in.Name)
	if err != nil {
		return err
	}
	c.Service.Names.Forget(className(c), "")
	refresh(c, change)
	return c.SendJSON(http.StatusOK, classDoc(c, in.Name))
}

func deleteClass(c *request.Call) error {
	if err := c.Service.Store.DeleteClass(c.Context(), className(c)); err != nil {
		return err
	}
	c.Service.Names.Forget(className(c), "")
	return c.WriteStatus(http.StatusNoContent)
}
