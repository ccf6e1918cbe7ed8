package keystone

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"testing"
)

// Doc is a JSON object.
type Doc = map[string]any

// Call calls the v3 API, with a path such as "/users", and fails the test if the status differs from wanted. It decodes
// the response into result unless result is nil.
func (k *Keystone) Call(t testing.TB, token, method, path string, body any, want int, result any) http.Header {
	t.Helper()
	var text []byte
	if body != nil {
		var err error
		if text, err = json.Marshal(body); err != nil {
			t.Fatal(err)
		}
	}
	request, err := http.NewRequestWithContext(t.Context(), method, k.URL+"/v3"+path, bytes.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	request.Header.Set("Content-Type", "application/json")
	if token != "" {
		request.Header.Set("X-Auth-Token", token)
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	answer, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	if response.StatusCode != want {
		t.Fatalf("%s %s: status %d, want %d\n%s\n%s", method, path, response.StatusCode, want, answer, k.server.Tail())
	}
	if result != nil {
		if err := json.Unmarshal(answer, result); err != nil {
			t.Fatalf("%s %s: %v\n%s", method, path, err, answer)
		}
	}
	return response.Header
}

// Token signs in and returns a token for a project, or without scope if the name is empty.
func (k *Keystone) Token(t testing.TB, user, password, project string) string {
	t.Helper()
	var scope Doc
	if project != "" {
		scope = Doc{"project": Doc{"name": project, "domain": Doc{"id": "default"}}}
	}
	return k.scoped(t, user, password, scope)
}

// SystemToken signs in and returns a token for the system.
func (k *Keystone) SystemToken(t testing.TB, user, password string) string {
	t.Helper()
	return k.scoped(t, user, password, Doc{"system": Doc{"all": true}})
}

func (k *Keystone) scoped(t testing.TB, user, password string, scope Doc) string {
	t.Helper()
	auth := Doc{"identity": Doc{"methods": []string{"password"},
		"password": Doc{"user": Doc{"name": user, "domain": Doc{"id": "default"}, "password": password}}}}
	if scope != nil {
		auth["scope"] = scope
	}
	return k.Call(t, "", "POST", "/auth/tokens", Doc{"auth": auth}, http.StatusCreated, nil).Get("X-Subject-Token")
}

// Admin returns a new token of the administrator.
func (k *Keystone) Admin(t testing.TB) string {
	t.Helper()
	return k.Token(t, k.AdminUser, k.AdminPassword, k.AdminProject)
}

// Revoke revokes a token.
func (k *Keystone) Revoke(t testing.TB, token string) {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), "DELETE", k.URL+"/v3/auth/tokens", nil)
	if err != nil {
		t.Fatal(err)
	}
	request.Header.Set("X-Auth-Token", k.Admin(t))
	request.Header.Set("X-Subject-Token", token)
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	response.Body.Close()
	if response.StatusCode != http.StatusNoContent {
		t.Fatalf("a token is revoked with status %d", response.StatusCode)
	}
}

// User creates a user whose password is its name, with roles in a project; it creates missing roles and projects. It
// returns the IDs of user and project.
func (k *Keystone) User(t testing.TB, name, project string, roles ...string) (userID, projectID string) {
	t.Helper()
	// A token of its own for each call: where tokens live for seconds, one would not last on a busy machine.
	projectID = k.find(t, "project", project, Doc{"domain_id": "default"})
	userID = k.find(t, "user", name, Doc{"domain_id": "default", "password": name})
	for _, role := range roles {
		id := k.find(t, "role", role, Doc{})
		k.Call(t, k.Admin(t), "PUT", "/projects/"+projectID+"/users/"+userID+"/roles/"+id, nil, http.StatusNoContent, nil)
	}
	return userID, projectID
}
