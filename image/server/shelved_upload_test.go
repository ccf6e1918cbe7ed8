package server

import (
	"log/slog"
	"net/http"
	"testing"

	"github.com/openberth/berth/api/edge"
	"github.com/openberth/berth/api/identity"
	"github.com/openberth/berth/api/image"
	"github.com/openberth/berth/image/store"
)

// The account of an agent, with the role service, uploads the disk of a shelved server of any project, and no other
// data. It creates and deletes no images.
func TestAgentUploadsDisksOfShelvedServers(t *testing.T) {
	f := &fixture{t: t, dir: t.TempDir()}
	st, err := store.Open(f.dir, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	f.handler = New(Options{Store: st, Limits: store.Limits{Size: 1 << 20}, Options: edge.Options{
		Log: slog.New(slog.DiscardHandler),
		Authenticate: func(r *http.Request) (identity.Identity, error) {
			who := identity.Identity{User: "u", Project: r.Header.Get("X-Auth-Token")}
			switch who.Project {
			case "admin":
				who.Roles = []string{"admin"}
			case "agent":
				who.Roles = []string{"service"}
			}
			return who, nil
		}}})
	const plain, shelved = "10000000-0000-4000-8000-000000000001", "10000000-0000-4000-8000-000000000002"
	for id, more := range map[string]string{plain: "", shelved: `, "` + image.ShelvedServer + `": "s"`} {
		body := `{"id": "` + id + `", "owner": "p", "visibility": "private", "disk_format": "raw", ` +
			`"container_format": "bare"` +
			more + `}`
		f.want(http.StatusForbidden, "agent", http.MethodPost, "/v2/images", body)
		f.want(http.StatusCreated, "admin", http.MethodPost, "/v2/images", body)
		f.want(http.StatusForbidden, "agent", http.MethodDelete, "/v2/images/"+id, "")
	}
	data := string(make([]byte, 512))
	octets := []string{"Content-Type", "application/octet-stream"}
	f.want(http.StatusForbidden, "agent", http.MethodPut, "/v2/images/"+plain+"/file", data, octets...)
	f.want(http.StatusNotFound, "other", http.MethodPut, "/v2/images/"+shelved+"/file", data, octets...)
	f.want(http.StatusNoContent, "agent", http.MethodPut, "/v2/images/"+shelved+"/file", data, octets...)
	f.want(http.StatusConflict, "agent", http.MethodPut, "/v2/images/"+shelved+"/file", data, octets...)
	f.want(http.StatusForbidden, "agent", http.MethodDelete, "/v2/images/"+shelved, "")
}
