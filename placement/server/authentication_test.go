package server

import (
	"net/http"
	"strings"
	"testing"

	"github.com/openberth/berth/api/identity"
	"github.com/openberth/berth/fault"
)

// A 401 answer has WWW-Authenticate for Keystone, and not for noauth2, as in the original.
func TestAuthenticateHeader(t *testing.T) {
	for _, challenge := range []string{"", `Keystone uri="http://127.0.0.1:5000"`} {
		w := newWorld(t, func(o *Options) { o.Challenge = challenge })
		resp := w.ask("1.39", "GET", "/traits", "", "X-Auth-Token", "")
		got, sent := resp.Header["Www-Authenticate"]
		if resp.StatusCode != 401 || sent != (challenge != "") || strings.Join(got, "|") != challenge {
			t.Errorf("%d %q, want %q", resp.StatusCode, got, challenge)
		}
		prefix := `{"code":"401 Unauthorized","message":`
		if challenge != "" {
			prefix = `{"error":{"code":401,"message":`
		}
		if text := bodyOf(t, resp); !strings.HasPrefix(text, prefix) {
			t.Errorf("%s, want %s…", text, prefix)
		}
		if got := w.ask("1.39", "GET", "/", "").Header.Get("Www-Authenticate"); got != "" {
			t.Errorf("an answer with status 200 has WWW-Authenticate: %q", got)
		}
	}
}

func TestRequestsAreRefusedWithoutAuthentication(t *testing.T) {
	w := newWorld(t, func(o *Options) { o.Authenticate = nil })
	if resp := w.ask("1.39", "GET", "/resource_providers", ""); resp.StatusCode != 401 {
		t.Errorf("%d", resp.StatusCode)
	}
	down := newWorld(t, func(o *Options) {
		o.Authenticate = func(*http.Request) (identity.Identity, error) {
			return identity.Identity{}, fault.New(fault.Unavailable, "does not answer")
		}
	})
	if resp := down.ask("1.39", "GET", "/resource_providers", ""); resp.StatusCode != 503 {
		t.Errorf("%d", resp.StatusCode)
	}
}
