package server

import (
	"net/http"

	"github.com/openberth/berth/api/edge"
)

// apiVersion is the version of the Image API.
const apiVersion = "v2.9"

// routes returns the paths of the API.
func (s *server) routes() []edge.Route[*call] {
	return []edge.Route[*call]{
		{Path: "/", Public: true, Methods: methods{http.MethodGet: {Handle: showVersions(http.StatusMultipleChoices)}}},
		{Path: "/versions", Public: true, Methods: methods{http.MethodGet: {Handle: showVersions(http.StatusOK)}}},
		{Path: "/v2", Public: true, Methods: methods{http.MethodGet: {Handle: showVersions(http.StatusMultipleChoices)}}},
		{Path: "/v2/schemas/image", Methods: methods{http.MethodGet: {Handle: showSchema(imageSchema)}}},
		{Path: "/v2/schemas/images", Methods: methods{http.MethodGet: {Handle: showSchema(imagesSchema)}}},
		{Path: "/v2/schemas/member", Methods: methods{http.MethodGet: {Handle: showSchema(memberSchema)}}},
		{Path: "/v2/schemas/members", Methods: methods{http.MethodGet: {Handle: showSchema(listSchema("members",
			memberSchema))}}},
		{Path: "/v2/schemas/task", Methods: methods{http.MethodGet: {Handle: showSchema(taskSchema)}}},
		{Path: "/v2/schemas/tasks", Methods: methods{http.MethodGet: {Handle: showSchema(listSchema("tasks",
			taskSchema))}}},
		{Path: "/v2/info/import", Methods: methods{http.MethodGet: {Handle: s.showImportMethods}}},
		{Path: "/v2/info/stores", Methods: methods{http.MethodGet: {Handle: s.showStores(false)}}},
		{Path: "/v2/info/stores/detail", Methods: methods{http.MethodGet: {Handle: s.showStores(true)}}},
		{Path: "/v2/tasks", Methods: methods{
			http.MethodGet: {Handle: s.allTasks}, http.MethodPost: {Handle: s.refuseTask}}},
		{Path: "/v2/tasks/{id}", Methods: methods{http.MethodGet: {Handle: s.showTask}}},
		{Path: "/v2/metadefs/{kind}", Methods: methods{http.MethodGet: {Handle: noMetadefs},
			http.MethodPost: {Handle: noMetadefs}}},
		{Path: "/v2/images", Methods: methods{
			http.MethodGet: {Handle: s.listImages}, http.MethodPost: {Handle: s.createImage}}},
		{Path: "/v2/images/{id}", Methods: methods{http.MethodGet: {Handle: s.showImage},
			http.MethodPatch: {Handle: s.changeImage}, http.MethodDelete: {Handle: s.deleteImage}}},
		{Path: "/v2/images/{id}/file", Methods: methods{
			http.MethodGet: {Handle: s.download}, http.MethodPut: {Handle: s.upload}}},
		{Path: "/v2/images/{id}/stage", Methods: methods{http.MethodPut: {Handle: s.stage}}},
		{Path: "/v2/images/{id}/import", Methods: methods{http.MethodPost: {Handle: s.importImage}}},
		{Path: "/v2/images/{id}/tasks", Methods: methods{http.MethodGet: {Handle: s.listTasks}}},
		{Path: "/v2/images/{id}/actions/{action}", Methods: methods{http.MethodPost: {Handle: s.act}}},
		{Path: "/v2/images/{id}/tags/{tag}", Methods: methods{
			http.MethodPut: {Handle: s.addTag}, http.MethodDelete: {Handle: s.removeTag}}},
		{Path: "/v2/images/{id}/members", Methods: methods{
			http.MethodGet: {Handle: s.listMembers}, http.MethodPost: {Handle: s.addMember}}},
		{Path: "/v2/images/{id}/members/{member}", Methods: methods{http.MethodGet: {Handle: s.showMember},
			http.MethodPut: {Handle: s.changeMember}, http.MethodDelete: {Handle: s.removeMember}}},
		{Path: "/berth/v1/images/{id}/upload", Methods: methods{
			http.MethodGet: {Spec: edge.Spec{Quiet: true}, Handle: s.showUpload}}},
	}
}

// showVersions returns a handler of the versions of the API. Glance answers with 300 where a client may choose one.
func showVersions(status int) func(*call) error {
	return func(c *call) error {
		return c.WriteJSON(status, map[string]any{"versions": []any{map[string]any{"id": apiVersion, "status": "CURRENT",
			"links": []any{map[string]any{"rel": "self", "href": c.BaseURL() + "/v2/"}}}}})
	}
}

// showSchema returns a handler of a JSON schema.
func showSchema(schema map[string]any) func(*call) error {
	return func(c *call) error {
		return c.WriteJSON(http.StatusOK, schema)
	}
}

// The schemas of an image and of a list. Clients read from them which attributes are not properties.
var (
	imageSchema = map[string]any{"name": "image", "properties": schemaProperties(),
		"additionalProperties": map[string]any{"type": "string"},
		"links": []any{map[string]any{"rel": "self", "href": "{self}"}, map[string]any{"rel": "enclosure", "href": "{file}"},
			map[string]any{"rel": "describedby", "href": "{schema}"}}}
	imagesSchema = map[string]any{"name": "images", "properties": map[string]any{
		"images": map[string]any{"type": "array", "items": imageSchema}, "first": map[string]any{"type": "string"},
		"next": map[string]any{"type": "string"}, "schema": map[string]any{"type": "string"}},
		"links": []any{map[string]any{"rel": "first", "href": "{first}"}, map[string]any{"rel": "next", "href": "{next}"},
			map[string]any{"rel": "describedby", "href": "{schema}"}}}
)

// The schemas of a member and of a task.
var (
	memberSchema = objectSchema("member", "member_id", "image_id", "status", "created_at", "updated_at", "schema")
	taskSchema   = objectSchema("task", "id", "type", "status", "message", "image_id", "request_id", "user_id", "owner",
		"expires_at", "created_at", "updated_at", "self", "schema")
)

// objectSchema returns the schema of an object whose attributes are texts or null.
func objectSchema(name string, attributes ...string) map[string]any {
	properties := map[string]any{}
	for _, attribute := range attributes {
		properties[attribute] = map[string]any{"type": []string{"null", "string"}}
	}
	return map[string]any{"name": name, "properties": properties}
}

// listSchema returns the schema of a list.
func listSchema(name string, one map[string]any) map[string]any {
	return map[string]any{"name": name, "properties": map[string]any{
		name: map[string]any{"type": "array", "items": one}, "schema": map[string]any{"type": "string"}},
		"links": []any{map[string]any{"rel": "describedby", "href": "{schema}"}}}
}

// schemaProperties returns the schema of each attribute of an image.
func schemaProperties() map[string]any {
	all := map[string]any{}
	for name, kind := range readOnly {
		all[name] = map[string]any{"type": []string{"null", kind}, "readOnly": true}
	}
	for name, a := range attributes {
		all[name] = map[string]any{"type": []string{"null", a.kind}}
	}
	all["tags"] = map[string]any{"type": "array", "items": map[string]any{"type": "string", "maxLength": 255}}
	return all
}
