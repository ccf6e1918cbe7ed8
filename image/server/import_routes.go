package server

import (
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/openberth/berth/api/edge"
	"github.com/openberth/berth/fault"
	"github.com/openberth/berth/image/store"
)

// storeName is the name of the only store, which is a directory.
const storeName = "file"

// stage is PUT /v2/images/{id}/stage: the data is kept until it is imported. A header Content-Range continues it, as
// for PUT /v2/images/{id}/file.
func (s *server) stage(c *call) error {
	if !s.hasMethod(glanceDirect) {
		return fault.New(fault.NotFound, "enabled_import_methods does not have %s; upload the data (PUT "+
			"/v2/images/{id}/file)", glanceDirect)
	}
	i, u, err := s.readUpload(c)
	if err != nil {
		return err
	}
	if text := c.R.Header.Get("X-Openstack-Image-Size"); text != "" {
		size, err := strconv.ParseInt(text, 10, 64)
		if err != nil || size < 0 || u.Total >= 0 && u.Total != size {
			return fault.New(fault.Invalid, "x-openstack-image-size is %q, and the body has another size", text)
		}
		u.Total = size
	}
	if _, err := s.Store.Stage(i.ID, u); err != nil {
		return tooLarge(err)
	}
	return c.WriteStatus(http.StatusNoContent)
}

// importRequest is the body of an import.
type importRequest struct {
	Method struct {
		Name string `json:"name"`
		URI  string `json:"uri"`
	} `json:"method"`
	Stores    []string `json:"stores"`
	AllStores bool     `json:"all_stores"`
}

// importImage is POST /v2/images/{id}/import. The import continues after the answer.
func (s *server) importImage(c *call) error {
	i, err := c.find("modify_image")
	if err != nil {
		return err
	}
	var body importRequest
	if err := c.decode(&body); err != nil {
		return err
	}
	switch name := body.Method.Name; {
	case name == "":
		return fault.New(fault.Invalid, "the body has no method.name; use one of %s", strings.Join(s.Methods, ", "))
	case !s.hasMethod(name):
		return fault.New(fault.Invalid, "the import method %q is not enabled; use one of %q", name, s.Methods)
	case name == webDownload && body.Method.URI == "":
		return fault.New(fault.Invalid, "%s needs method.uri", webDownload)
	case name == webDownload:
		if err := s.Imports.web.Check(body.Method.URI); err != nil {
			return err
		}
	}
	for _, name := range body.Stores {
		if name != storeName {
			return fault.New(fault.Conflict, "there is no store %q; the only one is %s", name, storeName)
		}
	}
	imported := store.Import{ID: uuid.NewString(), Method: body.Method.Name, User: c.Who.User, Project: c.Who.Project,
		Request: c.ID}
	if imported.Method == webDownload {
		imported.URI = body.Method.URI
	}
	if err := s.Imports.begin(i.ID, imported); err != nil {
		return err
	}
	return c.WriteStatus(http.StatusAccepted)
}

func (s *server) hasMethod(name string) bool {
	return s.Imports != nil && slices.Contains(s.Methods, name)
}

// listTasks is GET /v2/images/{id}/tasks: the last import.
func (s *server) listTasks(c *call) error {
	i, err := c.find("get_image")
	if err != nil {
		return err
	}
	list := []map[string]any{}
	if i.Import != nil && (i.Owner == c.Who.Project || c.Who.IsAdmin()) {
		list = append(list, taskView(i))
	}
	return c.WriteJSON(http.StatusOK, map[string]any{"tasks": list})
}

// taskLife is how long a task is shown as valid after its end, as Glance's task_time_to_live. It stays until the next
// import of the image.
const taskLife = 48 * time.Hour

// taskView returns the document of the task of an image's last import.
func taskView(i store.Image) map[string]any {
	t := *i.Import
	method := map[string]any{"name": t.Method}
	if t.URI != "" {
		method["uri"] = t.URI
	}
	view := map[string]any{"id": t.ID, "type": "api_image_import", "status": t.Status, "message": t.Message,
		"image_id": i.ID, "request_id": t.Request, "user_id": t.User, "owner": t.Project, "result": nil, "expires_at": nil,
		"input":      map[string]any{"image_id": i.ID, "import_req": map[string]any{"method": method}},
		"created_at": t.Began.Format(time.RFC3339), "updated_at": t.Began.Format(time.RFC3339),
		"self": "/v2/tasks/" + t.ID, "schema": "/v2/schemas/task"}
	if !t.Ended.IsZero() {
		view["updated_at"], view["expires_at"] = t.Ended.Format(time.RFC3339), t.Ended.Add(taskLife).Format(time.RFC3339)
	}
	if t.Status == store.ImportSucceeded {
		view["result"] = map[string]any{"image_id": i.ID}
	}
	return view
}

// allTasks lists the tasks of all images, the newest first. Only administrators may ask.
func (s *server) allTasks(c *call) error {
	if err := c.Authorize("get_tasks", nil); err != nil {
		return err
	}
	list := []map[string]any{}
	for _, i := range s.Store.List() {
		if i.Import != nil {
			list = append(list, taskView(i))
		}
	}
	slices.SortStableFunc(list, func(a, b map[string]any) int {
		return strings.Compare(edge.TextOf(b["created_at"]), edge.TextOf(a["created_at"]))
	})
	return c.WriteJSON(http.StatusOK, map[string]any{"tasks": list, "first": "/v2/tasks", "schema": "/v2/schemas/tasks"})
}

// showTask is GET /v2/tasks/{id}.
func (s *server) showTask(c *call) error {
	if err := c.Authorize("get_task", nil); err != nil {
		return err
	}
	for _, i := range s.Store.List() {
		if i.Import != nil && i.Import.ID == c.R.PathValue("id") {
			return c.WriteJSON(http.StatusOK, taskView(i))
		}
	}
	return fault.New(fault.NotFound, "there is no task %s; openstack image task list shows all", c.R.PathValue("id"))
}

// refuseTask is POST /v2/tasks, which Glance has deprecated.
func (s *server) refuseTask(c *call) error {
	if err := c.Authorize("add_task", nil); err != nil {
		return err
	}
	return fault.New(fault.Forbidden, "tasks are not created by clients; import an image (POST /v2/images/{id}/import)")
}

// showImportMethods is GET /v2/info/import.
func (s *server) showImportMethods(c *call) error {
	methods := []string{}
	for _, name := range s.Methods {
		if s.hasMethod(name) {
			methods = append(methods, name)
		}
	}
	return c.WriteJSON(http.StatusOK, map[string]any{"import-methods": map[string]any{
		"description": "Import methods available.", "type": "array", "value": methods}})
}

// showStores is GET /v2/info/stores, and with detail of the only store.
func (s *server) showStores(detail bool) func(*call) error {
	return func(c *call) error {
		one := map[string]any{"id": storeName, "description": "the directory of the image service", "default": "true"}
		if detail {
			if err := c.Authorize("stores_info_detail", nil); err != nil {
				return err
			}
			one["type"], one["weight"], one["properties"] = "file", 0, map[string]any{}
		}
		return c.WriteJSON(http.StatusOK, map[string]any{"stores": []any{one}})
	}
}

// noMetadefs answers the paths of metadata definitions.
func noMetadefs(*call) error {
	return fault.New(fault.NotFound, "Berth has no metadata definitions; an image has any property that its owner sets")
}
