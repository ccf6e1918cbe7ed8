package cli

import (
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/openberth/berth/api/identity"
	"github.com/openberth/berth/console"
	"github.com/openberth/berth/fault"
)

// keystoneCloud is Keystone with one user, and the services of its catalog, which record the tokens that they get.
func keystoneCloud(t *testing.T, expires time.Time) (url string, tokens *[]string) {
	t.Helper()
	tokens = &[]string{}
	var server *httptest.Server
	server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/v3/auth/tokens" {
			*tokens = append(*tokens, r.URL.Path+" "+r.Header.Get("X-Auth-Token"))
			_ = json.NewEncoder(w).Encode(map[string]any{"servers": []any{}}) // the client may be gone
			return
		}
		var body strings.Builder
		var request any
		if json.NewDecoder(r.Body).Decode(&request) == nil {
			_ = json.NewEncoder(&body).Encode(request) // it was just decoded
		}
		for _, part := range []string{`"name":"ann"`, `"password":"right"`, `"name":"red"`, `"name":"Default"`} {
			if !strings.Contains(body.String(), part) {
				w.WriteHeader(http.StatusUnauthorized)
				return
			}
		}
		w.Header().Set("X-Subject-Token", "token-of-ann")
		w.WriteHeader(http.StatusCreated)
		catalog := []any{}
		for _, kind := range []string{"compute", "placement", "network", "identity"} {
			catalog = append(catalog, map[string]any{"type": kind, "endpoints": []any{map[string]any{"interface": "public",
				"region": "one", "url": server.URL + "/" + kind}}})
		}
		_ = json.NewEncoder(w).Encode(map[string]any{"token": map[string]any{"expires_at": expires, "catalog": catalog,
			"user": map[string]any{"name": "ann"}}}) // the client may be gone
	}))
	t.Cleanup(server.Close)
	return server.URL, tokens
}

// Users of the console sign in at the Keystone of the command's cloud, with their own accounts, and their sessions end
// with their tokens. The account of the command is not used.
func TestConsoleAtKeystone(t *testing.T) {
	expires := time.Now().Add(time.Hour).UTC().Truncate(time.Second)
	url, tokens := keystoneCloud(t, expires)
	file := filepath.Join(t.TempDir(), "clouds.yaml")
	if err := os.WriteFile(file, []byte("clouds: {red: {auth: {auth_url: "+url+", username: root, password: secret, "+
		"user_domain_id: other, project_id: other}}, bad: {auth_type: v3oidcpassword}}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	t.Setenv("OS_CLIENT_CONFIG_FILE", file)
	if _, err := ConsoleCloud(&Globals{OSCloud: "bad"}); err == nil || !strings.Contains(err.Error(), "v3oidcpassword") {
		t.Errorf("a cloud with another auth_type: %v", err)
	}
	cloud, err := ConsoleCloud(&Globals{OSCloud: "red"})
	if err != nil || cloud.Kind != console.WithKeystone {
		t.Fatalf("%v %v", cloud.Kind, err)
	}
	ann := console.Credentials{User: "ann", Password: "right", Project: "red", UserDomain: "Default",
		ProjectDomain: "Default"}
	clients, err := cloud.SignIn(ann)
	if err != nil {
		t.Fatal(err)
	}
	if ends, err := clients.Ends(t.Context()); err != nil || !ends.Equal(expires) {
		t.Errorf("the session ends %v, the token %v: %v", ends, expires, err)
	}
	if _, err := clients.Compute.REST.Do(t.Context(), http.MethodGet, "/v2.1/servers", nil, nil); err != nil ||
		len(*tokens) != 1 || (*tokens)[0] != "/compute/v2.1/servers token-of-ann" {
		t.Errorf("%v %v", *tokens, err)
	}
	ann.Password = "wrong"
	clients, err = cloud.SignIn(ann)
	if err != nil {
		t.Fatal(err)
	}
	_, err = clients.Ends(t.Context())
	if text := fault.TextOf(err); !strings.Contains(text, "refuses the user ann (status 401)") ||
		!strings.Contains(text, "correct the name, the password, the project or the domains") {
		t.Errorf("a wrong password: %s", text)
	}
	if _, is := errors.AsType[*identity.RefusedAccount](err); !is {
		t.Errorf("the cause of %v is another one", err)
	}
}
