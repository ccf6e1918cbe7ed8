package server

import (
	"regexp"
	"strings"
	"testing"
	"time"
)

// TestRemoteConsoles requests URLs of consoles at the versions of both requests, and shows their tokens to
// administrators.
func TestRemoteConsoles(t *testing.T) {
	h := startWith(t, func(o *Options) { o.Consoles.TokenTTL = time.Minute })
	h.flavor("small", nil)
	fresh := h.server(h.client("ann:p1"), "fresh", "small")
	id := h.running("web")
	at := "/servers/" + id
	console := func(protocol, typ string) string {
		return `{"remote_console": {"protocol": "` + protocol + `", "type": "` + typ + `"}}`
	}
	h.exchanges("ann:p1", []exchange{
		{"2.6", "POST", "/servers/" + fresh + "/remote-consoles", console("vnc", "novnc"), 409, "is not ready"},
		{"2.1", "POST", at + "/action", `{"os-getVNCConsole": {"type": "novnc"}}`, 200, `"type":"novnc"`},
		{"2.5", "POST", at + "/action", `{"os-getSerialConsole": {"type": "serial"}}`, 200, `/console/serial.html?token=`},
		{"2.5", "POST", at + "/action", `{"os-getVNCConsole": null}`, 400, "an object with the key type"},
		{"2.5", "POST", at + "/action", `{"os-getSPICEConsole": {"type": "spice-html5"}}`, 400, "Unavailable console type"},
		{"2.6", "POST", at + "/action", `{"os-getVNCConsole": {"type": "novnc"}}`, 404, "use remote-consoles"},
		{"2.5", "POST", at + "/remote-consoles", console("vnc", "novnc"), 404, ""},
		{"2.6", "POST", at + "/remote-consoles", console("vnc", "serial"), 400, "not a type of protocol"},
		{"2.7", "POST", at + "/remote-consoles", console("mks", "webmks"), 400, "not a type of protocol"},
		{"2.8", "POST", at + "/remote-consoles", console("mks", "webmks"), 400, "Unavailable console type webmks"},
		{"2.99", "POST", at + "/remote-consoles", console("spice", "spice-direct"), 400, "Unavailable console type"},
		{"2.6", "POST", at + "/remote-consoles", `{"remote_console": {"protocol": "vnc"}}`, 400, "type"},
	})
	answer := h.ask("POST", "/v2.1"+at+"/remote-consoles", console("serial", "serial"), "OpenStack-API-Version",
		"compute 2.6")
	status, text := answer.status, answer.text
	token := regexp.MustCompile(`token=([0-9a-f-]{36})`).FindStringSubmatch(text)
	if status != 200 || token == nil {
		t.Fatalf("%d %s", status, text)
	}
	show := "/os-console-auth-tokens/" + token[1]
	h.exchanges("admin", []exchange{
		{"2.31", "GET", show, "", 200, `"host":"cmp1","instance_uuid":"` + id + `","internal_access_path":null,"port":0`},
		{"2.99", "GET", show, "", 200, `"tls_port":null`},
		{"2.30", "GET", show, "", 400, "not accessible"},
		{"2.31", "GET", strings.Replace(show, token[1][:8], "00000000", 1), "", 404, "Token not found"},
	})
	h.exchanges("ann:p1", []exchange{{"2.31", "GET", show, "", 403, ""}})
	route := "os-console-auth-tokens/{token}"
	if log := h.log.String(); strings.Contains(log, token[1]) || !strings.Contains(log, "uri=/v2.1/"+route) {
		t.Errorf("the log has a token that opens a console:\n%s", log)
	}
}
