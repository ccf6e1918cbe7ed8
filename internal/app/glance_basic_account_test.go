package app

import (
	"bytes"
	"log/slog"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/crypto/bcrypt"

	"github.com/openberth/berth/api/identity"
	"github.com/openberth/berth/api/image"
	"github.com/openberth/berth/api/rest"
	"github.com/openberth/berth/fault"
	"github.com/openberth/berth/internal/settings"
)

// readSettings writes a configuration and reads it.
func readSettings(t *testing.T, text string) settings.Settings {
	t.Helper()
	file := filepath.Join(t.TempDir(), "berth.conf")
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	s, err := settings.Read(slog.New(slog.DiscardHandler), file)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// An agent and a compute with an account of http_basic in [glance] read the private image of a project from an image
// service with http_basic. A refused account is an error that names [glance].
func TestImagesWithHTTPBasic(t *testing.T) {
	t.Parallel()
	users := filepath.Join(t.TempDir(), "htpasswd")
	var lines strings.Builder
	for _, name := range []string{"ann", "nova"} {
		hash, err := bcrypt.GenerateFromPassword([]byte("secret"), bcrypt.MinCost)
		if err != nil {
			t.Fatal(err)
		}
		lines.WriteString(name + ":" + string(hash) + "\n")
	}
	if err := os.WriteFile(users, []byte(lines.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	service, err := OpenImage(t.TempDir(), readSettings(t, "[DEFAULT]\nhttp_basic_auth_user_file = "+users+
		"\n[api]\nauth_strategy = http_basic\n[berth]\nservice_users = nova\nuser_projects = ann:red\n"),
		slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	defer service.Close()
	server := httptest.NewServer(service.Handler)
	defer server.Close()

	account, err := identity.ServiceCalls{Type: identity.BasicAccount, Name: "ann", Password: "secret"}.Account()
	if err != nil {
		t.Fatal(err)
	}
	ann := image.Catalogue{REST: &rest.Client{Base: server.URL, HTTP: server.Client(), Account: account}}
	made, err := ann.Create(t.Context(), map[string]any{"name": "hers", "visibility": "private", "disk_format": "raw",
		"container_format": "bare"})
	if err == nil {
		err = ann.Upload(t.Context(), made.ID, bytes.NewReader([]byte("data")), 0, 4)
	}
	if err != nil {
		t.Fatal(err)
	}
	client := func(account string) *image.Client {
		s := readSettings(t, "[glance]\nendpoint_override = "+server.URL+"\n"+account)
		c, err := newImageClient(s.Images, slog.New(slog.DiscardHandler))
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	const basic = "auth_type = http_basic\nusername = nova\npassword = "
	ofAgent := imageAccount(client(basic + "secret\n"))
	if i, err := ofAgent.Image(t.Context(), made.ID); err != nil || i.Owner != "red" {
		t.Errorf("%+v %v", i, err)
	}
	if body, _, err := ofAgent.Download(t.Context(), made.ID, 0); err != nil {
		t.Error(err)
	} else {
		body.Close()
	}
	for name, c := range map[string]*image.Client{"a password": client(basic + "wrong\n"), "no account": client("")} {
		_, err := imageAccount(c).Image(t.Context(), made.ID)
		_, _, data := imageAccount(c).Download(t.Context(), made.ID, 0)
		for _, err := range []error{err, data} {
			if err == nil || fault.Is(err, fault.NotFound) || !strings.Contains(err.Error(), "[glance]") {
				t.Errorf("%s: %v", name, err)
			}
		}
	}
}
