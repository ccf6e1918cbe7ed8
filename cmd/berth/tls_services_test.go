package main

import (
	"crypto/tls"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/openberth/berth/api/compute"
	"github.com/openberth/berth/api/host"
	"github.com/openberth/berth/api/rest"
	"github.com/openberth/berth/internal/testcert"
	"github.com/openberth/berth/internal/testenv"
)

// tlsClient returns a client that trusts a CA, with one connection at a time to each service.
func tlsClient(ca *testcert.CA) *http.Client {
	return &http.Client{Transport: &http.Transport{TLSClientConfig: ca.Client(), MaxConnsPerHost: 1}}
}

// serialOf returns the serial number of the certificate of a connection, after a request to path.
func serialOf(t *testing.T, client *http.Client, url string) string {
	t.Helper()
	resp, err := client.Get(url)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if _, err := io.Copy(io.Discard, resp.Body); err != nil {
		t.Fatal(err)
	}
	return resp.TLS.PeerCertificates[0].SerialNumber.Text(16)
}

// Placement, compute and an agent are three processes that use TLS with a CA that only they know. A server becomes
// ACTIVE. SIGHUP replaces the certificate without closing a connection. Clients that do not trust the CA, or that use
// http, are refused with what to do.
func TestServicesOverTLS(t *testing.T) {
	t.Parallel()
	ca := testcert.NewCA(t)
	issued := ca.Issue(t, testcert.Certificate{})
	path, dir := conf(t, machine(t, 1, 2), "compute_cafile = "+ca.File, "[placement]\ncafile = "+ca.File,
		"[ssl]\ncert_file = "+issued.CertFile+"\nkey_file = "+issued.KeyFile), t.TempDir()
	p := start(t, []string{"placement"}, "placement", "--config-file", path, "--data-dir", t.TempDir(), "--listen",
		"127.0.0.1:0")
	c := start(t, []string{"compute"}, "compute", "--config-file", path, "--data-dir", dir, "--listen", "127.0.0.1:0",
		"--placement-url", p.urls["placement"])
	urls := []string{"--placement-url", p.urls["placement"], "--compute-url", c.urls["compute"]}
	for name, url := range map[string]string{"placement": p.urls["placement"], "compute": c.urls["compute"]} {
		if !strings.HasPrefix(url, "https://127.0.0.1:") {
			t.Fatalf("%s printed %s", name, url)
		}
	}
	a := start(t, nil, append([]string{"agent", "--config-file", path, "--data-dir", dir}, urls...)...)
	makeServerOverTLS(t, c, ca)
	checkTLSClients(t, p, c, ca, urls)
	replaceCertificate(t, p, ca, issued)
	for _, one := range []*daemon{a, c, p} {
		one.stop(t)
	}
}

// makeServerOverTLS creates a server with a device, and checks the links in answers.
func makeServerOverTLS(t *testing.T, c *daemon, ca *testcert.CA) {
	t.Helper()
	cc := compute.NewClient(c.urls["compute"], tlsClient(ca), "admin")
	flavor, err := cc.CreateFlavor(t.Context(), compute.CreateFlavor{Name: "f", VCPUs: 1, RAM: 64})
	if err != nil {
		t.Fatal(err)
	}
	if err := cc.SetExtraSpecs(t.Context(), flavor.ID, map[string]string{"pci_passthrough:alias": "vf:1"}); err != nil {
		t.Fatal(err)
	}
	hosts := host.Client{REST: &rest.Client{Base: c.urls["compute"], HTTP: tlsClient(ca),
		Headers: map[string]string{"X-Auth-Token": "admin"}}}
	testenv.Until(t, "the agent has reported", func() (bool, error) {
		list, err := hosts.Devices(t.Context())
		return len(list) == 2, err
	})
	made, err := cc.CreateServer(t.Context(), compute.CreateServer{Name: "s", Flavor: flavor.ID})
	if err != nil {
		t.Fatal(err)
	}
	var server compute.Server
	testenv.Until(t, "the server is ACTIVE", func() (bool, error) {
		server, err = cc.Server(t.Context(), made.ID)
		return server.Status == "ACTIVE", err
	})
	for _, link := range server.Links {
		if !strings.HasPrefix(link.HRef, c.urls["compute"]+"/") {
			t.Errorf("a link in an answer over TLS: %s", link.HRef)
		}
	}
}

// checkTLSClients runs client commands with and without the CA.
func checkTLSClients(t *testing.T, p, c *daemon, ca *testcert.CA, urls []string) {
	t.Helper()
	run := func(want string, status int, args ...string) {
		t.Helper()
		stdout, stderr, got := output(t, append(args, urls...)...)
		if got != status || !strings.Contains(stdout+stderr, want) {
			t.Errorf("berth %v: status %d, want %q in\n%s%s", args, got, want, stdout, stderr)
		}
	}
	run("ACTIVE", 0, "server", "list", "--ca-file", ca.File)
	run("cmp1_0000", 0, "provider", "list", "--ca-file", ca.File)
	run("the certificate of "+c.urls["compute"]+" is not trusted: x509: certificate signed by unknown authority; "+
		"name the "+
		"file with the certificate of its CA in --ca-file (or BERTH_CA_FILE)", 1, "server", "list")
	run("is not trusted", 1, "provider", "list", "--ca-file", testcert.NewCA(t).File)
	run("--ca-file (or BERTH_CA_FILE) cannot be read: open /nowhere", 1, "server", "list", "--ca-file", "/nowhere")
	_, stderr, status := output(t, "server", "list", "--compute-url",
		strings.Replace(c.urls["compute"], "https", "http", 1))
	if status != 1 || !strings.Contains(stderr, "HTTP request to an HTTPS server") ||
		!strings.Contains(stderr, "write https://") {
		t.Errorf("http to a service with TLS: status %d %s", status, stderr)
	}
	resp, err := tlsClient(ca).Do(placementRequest(t, p.urls["placement"]))
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if at := resp.Header.Get("Location"); !strings.HasPrefix(at, p.urls["placement"]+"/resource_providers/") ||
		resp.ProtoMajor != 1 {
		t.Errorf("%s %s, Location %q", resp.Proto, resp.Status, at)
	}
}

// placementRequest returns a request that creates a resource provider.
func placementRequest(t *testing.T, url string) *http.Request {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), "POST", url+"/resource_providers",
		strings.NewReader(`{"name": "over-tls"}`))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("X-Auth-Token", "admin")
	req.Header.Set("Content-Type", "application/json")
	return req
}

// replaceCertificate replaces the files of a running service, first by a certificate whose key is missing.
func replaceCertificate(t *testing.T, p *daemon, ca *testcert.CA, issued testcert.Issued) {
	t.Helper()
	url, open := p.urls["placement"]+"/", tlsClient(ca)
	if got := serialOf(t, open, url); got != issued.Serial {
		t.Fatalf("serial number %s, want %s", got, issued.Serial)
	}
	hangup := func() {
		t.Helper()
		if err := p.cmd.Process.Signal(syscall.SIGHUP); err != nil {
			t.Fatal(err)
		}
	}
	next := ca.Write(t, testcert.Certificate{}, issued.CertFile, filepath.Join(t.TempDir(), "key.pem"))
	hangup()
	testenv.Until(t, "the wrong key is logged", func() (bool, error) {
		return strings.Contains(p.log.String(),
			"[ssl] key_file = "+issued.KeyFile+": cannot be used with the certificate"), nil
	})
	if got := serialOf(t, tlsClient(ca), url); got != issued.Serial {
		t.Errorf("serial number %s after a wrong key, want %s", got, issued.Serial)
	}
	if next = ca.Write(t, testcert.Certificate{}, issued.CertFile, issued.KeyFile); next == issued.Serial {
		t.Fatal("the same serial number twice")
	}
	hangup()
	testenv.Until(t, "new connections have the new certificate", func() (bool, error) {
		return serialOf(t, tlsClient(ca), url) == next, nil
	})
	if got := serialOf(t, open, url); got != issued.Serial {
		t.Errorf("the open connection was closed: serial number %s, want %s", got, issued.Serial)
	}
}

// With [ssl] ca_file a client needs a certificate of that CA.
func TestClientCertificates(t *testing.T) {
	t.Parallel()
	ca := testcert.NewCA(t)
	server, client := ca.Issue(t, testcert.Certificate{}), ca.Issue(t, testcert.Certificate{Name: "operator"})
	other := testcert.NewCA(t).Issue(t, testcert.Certificate{Name: "intruder"})
	d := up(t, conf(t, machine(t, 1, 1), "[ssl]\ncert_file = "+server.CertFile+"\nkey_file = "+server.KeyFile+
		"\nca_file = "+ca.File), t.TempDir())
	list := []string{"device", "list", "--compute-url", d.urls["compute"], "--ca-file", ca.File}
	with := func(i testcert.Issued) []string {
		return append(list[:len(list):len(list)], "--cert-file", i.CertFile, "--key-file", i.KeyFile)
	}
	if stdout, stderr, status := output(t, with(client)...); status != 0 || !strings.Contains(stdout, "8086:1515") {
		t.Errorf("status %d %s%s", status, stdout, stderr)
	}
	for name, args := range map[string][]string{"no certificate": list, "another CA": with(other)} {
		if stdout, stderr, status := output(t, args...); status != 1 || stdout != "" {
			t.Errorf("%s: status %d %s%s", name, status, stdout, stderr)
		}
	}
	config := ca.Client()
	config.MaxVersion = tls.VersionTLS11
	if conn, err := tls.Dial("tcp", strings.TrimPrefix(d.urls["compute"], "https://"), config); err == nil {
		conn.Close()
		t.Error("TLS 1.1 was accepted")
	}
	d.stop(t)
}

// A certificate or a key that cannot be used stops the start with file, line and option. Nothing is written.
func TestWrongCertificateStopsTheStart(t *testing.T) {
	t.Parallel()
	ca := testcert.NewCA(t)
	good := ca.Issue(t, testcert.Certificate{})
	for name, text := range map[string]string{
		"cert_file = /nowhere\nkey_file = " + good.KeyFile: "[ssl] cert_file = /nowhere: cannot be read: no such file",
		"cert_file = " + good.CertFile + "\n": "[ssl] cert_file = " + good.CertFile + ": the certificate " +
			"needs its key",
		"cert_file = " + good.CertFile + "\nkey_file = " + ca.Issue(t, testcert.Certificate{}).KeyFile: "cannot be " +
			"used with " +
			"the certificate",
	} {
		path, data := conf(t, machine(t, 1, 1), "[ssl]", name), filepath.Join(t.TempDir(), "data")
		_, stderr, status := output(t, "up", "--config-file", path, "--data-dir", data, "--listen-placement",
			"127.0.0.1:0", "--listen-compute", "127.0.0.1:0", "--listen-network", "127.0.0.1:0", "--listen-image",
			"127.0.0.1:0")
		if status != 1 || !strings.Contains(stderr, path+":") || !strings.Contains(stderr, text) {
			t.Errorf("%s: status %d %s", name, status, stderr)
		}
		if _, err := os.Stat(data); err == nil {
			t.Error("the data directory was created")
		}
	}
}
