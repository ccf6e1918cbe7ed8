package main

import (
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// request sends a request with headers (pairs of name and value), and returns the answer and its body.
func request(t *testing.T, method, url, body string, headers ...string) (*http.Response, string) {
	t.Helper()
	req, err := http.NewRequest(method, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	for i := 0; i+1 < len(headers); i += 2 {
		req.Header.Set(headers[i], headers[i+1])
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	data, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp, string(data)
}

// Compute has what Placement has around its API: CORS, proxy headers, policy files, /metrics and the request log.
func TestComputeHasCORSProxyHeadersPolicyMetricsAndRequestLog(t *testing.T) {
	t.Parallel()
	policy := filepath.Join(t.TempDir(), "policy.yaml")
	if err := os.WriteFile(policy, []byte(`"os_compute_api:os-flavor-manage:create": "role:flavors"`), 0o600); err != nil {
		t.Fatal(err)
	}
	d := start(t, []string{"compute"}, "compute", "--config-file", conf(t, machine(t, 1, 1), "[cors]",
		"allowed_origin = https://trusted.example", "[oslo_middleware]", "enable_proxy_headers_parsing = true",
		"[oslo_policy]", "policy_file = "+policy), "--data-dir", t.TempDir(), "--listen", "127.0.0.1:0")
	url := d.urls["compute"]
	const flavor = `{"flavor": {"id": "f", "name": "f", "vcpus": 1, "ram": 1, "disk": 0}}`
	resp, text := request(t, "POST", url+"/v2.1/flavors", flavor, "X-Auth-Token", "admin")
	if resp.StatusCode != 403 || !strings.Contains(text, "os_compute_api:os-flavor-manage:create") {
		t.Errorf("%d %s", resp.StatusCode, text)
	}
	resp, text = request(t, "POST", url+"/v2.1/flavors", flavor, "X-Auth-Token", "ann:p", "X-Roles", "flavors",
		"Origin", "https://trusted.example", "X-Forwarded-Proto", "https", "X-Forwarded-Host", "cloud.example")
	if resp.StatusCode != 200 || !strings.Contains(text, `"https://cloud.example/v2.1/flavors/f"`) ||
		resp.Header.Get("Access-Control-Allow-Origin") != "https://trusted.example" {
		t.Errorf("%d %s %v", resp.StatusCode, text, resp.Header)
	}
	_, text = request(t, "GET", url+"/metrics", "")
	for _, line := range []string{`berth_compute_requests_total{method="POST",route="/v2.1/flavors",status="200"} 1`,
		`berth_compute_requests_total{method="POST",route="/v2.1/flavors",status="403"} 1`} {
		if !strings.Contains(text, "\n"+line+"\n") {
			t.Errorf("/metrics has no line %s", line)
		}
	}
	d.stop(t)
	for _, want := range []string{"msg=request", "route=/v2.1/flavors", "user=ann"} {
		if !strings.Contains(d.log.String(), want) {
			t.Errorf("no %s in the log:\n%s", want, d.log)
		}
	}
}
