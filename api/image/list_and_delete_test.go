package image

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/openberth/berth/api/identity"
	"github.com/openberth/berth/fault"
)

// TestListAndDelete lists images in pages for callers, and deletes images.
func TestListAndDelete(t *testing.T) {
	var deleted []string
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		id := strings.TrimPrefix(r.URL.Path, "/v2/images/")
		switch {
		case r.Method == http.MethodDelete && id == "kept":
			w.WriteHeader(http.StatusForbidden)
			w.Write([]byte(`{"message": "it is protected"}`))
		case r.Method == http.MethodDelete && id == "used":
			w.WriteHeader(http.StatusConflict)
		case r.Method == http.MethodDelete:
			deleted = append(deleted, id)
			w.WriteHeader(http.StatusNoContent)
		case id == "/v2/images" && r.URL.Query().Get("marker") == "":
			w.Write([]byte(`{"images": [{"id": "own", "status": "active", "owner": "p1", "visibility": "private"},
				{"id": "others", "status": "active", "owner": "p2", "visibility": "shared"}],
				"next": "/v2/images?limit=1000&marker=others"}`))
		case id == "/v2/images":
			w.Write([]byte(`{"images": [{"id": "public", "status": "active", "owner": "p2", "visibility": "public"}]}`))
		case id == "public":
			w.Write([]byte(`{"id": "public", "status": "active", "owner": "p2", "visibility": "public"}`))
		case id == "gone":
			w.WriteHeader(http.StatusNotFound)
		default:
			w.Write([]byte(`{"id": "` + id + `", "status": "active", "owner": "p1", "visibility": "private"}`))
		}
	}))
	defer server.Close()
	c, err := New(Options{Servers: []string{server.URL}})
	if err != nil {
		t.Fatal(err)
	}
	ann, admin := identity.Identity{User: "ann", Project: "p1"}, identity.Identity{User: "root", Roles: []string{"admin"}}
	for want, who := range map[string]identity.Identity{"own public": ann, "own others public": admin} {
		list, err := c.Images(t.Context(), who, "")
		var ids []string
		for _, i := range list {
			ids = append(ids, i.ID)
		}
		if got := strings.Join(ids, " "); err != nil || got != want {
			t.Errorf("%s lists %q, %v; want %q", who.User, got, err, want)
		}
	}
	for id, want := range map[string]fault.Kind{"gone": fault.NotFound, "public": fault.Forbidden, "kept": fault.Forbidden,
		"used": fault.Conflict} {
		if err := c.Delete(context.Background(), ann, "", id); !fault.Is(err, want) {
			t.Errorf("deleting %s: %v", id, err)
		}
	}
	for id, who := range map[string]identity.Identity{"own": ann, "public": admin} {
		if err := c.Delete(t.Context(), who, "", id); err != nil {
			t.Errorf("deleting %s: %v", id, err)
		}
	}
	if len(deleted) != 2 {
		t.Errorf("deleted: %q", deleted)
	}
}
