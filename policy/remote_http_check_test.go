package policy

import (
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/openberth/berth/fault"
)

func TestRemoteChecksSendRequestAndRequireTrue(t *testing.T) {
	var path, kind string
	received := map[string]any{}
	answer := "True"
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		path, kind = r.URL.Path, r.Header.Get("Content-Type")
		received = map[string]any{}
		if kind == "application/json" {
			if err := json.NewDecoder(r.Body).Decode(&received); err != nil {
				t.Error(err)
			}
		} else {
			for _, name := range []string{"rule", "target", "credentials"} {
				var value any
				if err := json.Unmarshal([]byte(r.FormValue(name)), &value); err != nil {
					t.Error(err)
				}
				received[name] = value
			}
		}
		w.Write([]byte(answer))
	}))
	defer server.Close()
	text := "ask: role:x or " + server.URL + "/may/%(name)s\ninner: rule:ask\nnever: not " + server.URL + "/x\n"
	creds, target := Creds{"user_id": "u"}, map[string]any{"name": "n"}
	for _, asJSON := range []bool{false, true} {
		e := enforcerFor(t, nil, Options{Remote: Remote{JSON: asJSON}}, text)
		for _, answer = range []string{"True", `"True"`} {
			checkAllow(t, e, true, "ask", creds, target)
		}
		checkAllow(t, e, true, "inner", creds, target)
		if path != "/may/n" || received["rule"] != "inner" || received["target"].(map[string]any)["name"] != "n" ||
			received["credentials"].(map[string]any)["user_id"] != "u" {
			t.Errorf("%s: %s %v", kind, path, received)
		}
		if asJSON != (kind == "application/json") {
			t.Error(kind)
		}
		for _, answer = range []string{"", "true", "False", "True!", strings.Repeat("True", 1000)} {
			checkAllow(t, e, false, "ask", creds, target)
		}
		path = ""
		checkAllow(t, e, true, "ask", Creds{"roles": []string{"x"}}, target)
		if why := checkAllow(t, e, false, "ask", creds, nil); !strings.Contains(why, "target lacks") || path != "" {
			t.Error(why, path)
		}
		if why := checkAllow(t, e, false, "ask", creds, map[string]any{"name": "n", "odd": func() {}}); !strings.Contains(why,
			"cannot be evaluated") {
			t.Error(why)
		}
	}
	server.Close()
	e := enforcerFor(t, nil, Options{}, text)
	for _, rule := range []string{"ask", "never"} {
		if why := checkAllow(t, e, false, rule, creds, target); !strings.Contains(why, "cannot be evaluated") {
			t.Error(why)
		}
	}
}

// TestRemoteCheckTimeoutDenies uses a server that does not answer.
func TestRemoteCheckTimeoutDenies(t *testing.T) {
	done := make(chan struct{})
	server := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { <-done }))
	defer server.Close()
	defer close(done)
	e := enforcerFor(t, nil, Options{Remote: Remote{Timeout: time.Millisecond}}, "ask: not "+server.URL+"/\n")
	if why := checkAllow(t, e, false, "ask", Creds{}, nil); !strings.Contains(why, "deadline") {
		t.Error(why)
	}
}

func TestRemoteChecksVerifyCertificates(t *testing.T) {
	server := httptest.NewTLSServer(
		http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.Write([]byte("True")) }))
	server.Config.ErrorLog = nil
	defer server.Close()
	dir := t.TempDir()
	ca := writeFile(t, dir, "ca.pem",
		string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})))
	if _, err := x509.ParseCertificate(server.Certificate().Raw); err != nil {
		t.Fatal(err)
	}
	text := "ask: " + server.URL + "/\n"
	checkAllow(t, enforcerFor(t, nil, Options{}, text), true, "ask", Creds{}, nil)
	checkAllow(t, enforcerFor(t, nil, Options{Remote: Remote{Verify: true, CAFile: ca}}, text), true, "ask", Creds{}, nil)
	if why := checkAllow(t, enforcerFor(t, nil, Options{Remote: Remote{Verify: true}}, text), false, "ask", Creds{},
		nil); !strings.Contains(
		why, "certificate") {
		t.Error(why)
	}
	for _, wrong := range []Remote{{Verify: true, CAFile: dir + "/absent"},
		{Verify: true, CAFile: writeFile(t, dir, "no.pem", "x")}, {CertFile: ca, KeyFile: ca}} {
		if _, err := New(nil, Options{Remote: wrong}); !fault.Is(err, fault.Invalid) {
			t.Errorf("%+v: %v", wrong, err)
		}
	}
}
