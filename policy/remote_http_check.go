package policy

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"strings"
	"time"

	"github.com/openberth/berth/fault"
)

// Remote is the configuration of http: and https: checks: the remote_* options of [oslo_policy]. The zero value has the
// defaults.
type Remote struct {
	JSON     bool          // remote_content_type = application/json; else a form
	Timeout  time.Duration // remote_timeout, of one whole call; 0: 60 seconds
	Verify   bool          // remote_ssl_verify_server_crt: the server's certificate is checked
	CAFile   string        // remote_ssl_ca_crt_file
	CertFile string        // remote_ssl_client_crt_file
	KeyFile  string        // remote_ssl_client_key_file
}

// maxAnswerBytes is the number of bytes read of a remote server's answer; only the answer True allows.
const maxAnswerBytes = 64

// remote is the client of http: and https: checks.
type remote struct {
	asJSON  bool
	timeout time.Duration
	client  *http.Client
}

func newRemote(o Remote) (*remote, error) {
	const op = "policy.New"
	if o.Timeout <= 0 {
		o.Timeout = time.Minute
	}
	secure := &tls.Config{MinVersion: tls.VersionTLS12, InsecureSkipVerify: !o.Verify}
	if o.Verify && o.CAFile != "" {
		pem, err := os.ReadFile(o.CAFile)
		if err != nil {
			return nil, fault.New(fault.Invalid, op, "[oslo_policy] remote_ssl_ca_crt_file cannot be read: %w", err)
		}
		secure.RootCAs = x509.NewCertPool()
		if !secure.RootCAs.AppendCertsFromPEM(pem) {
			return nil, fault.New(fault.Invalid, op, "[oslo_policy] remote_ssl_ca_crt_file = %s has no "+
				"PEM certificate", o.CAFile)
		}
	}
	if o.CertFile != "" {
		pair, err := tls.LoadX509KeyPair(o.CertFile, o.KeyFile)
		if err != nil {
			return nil, fault.New(fault.Invalid, op, "[oslo_policy] remote_ssl_client_crt_file and …_key_file "+
				"cannot be used: %w", err)
		}
		secure.Certificates = []tls.Certificate{pair}
	}
	transport := http.DefaultTransport.(*http.Transport).Clone()
	transport.TLSClientConfig = secure
	return &remote{asJSON: o.JSON, timeout: o.Timeout, client: &http.Client{Transport: transport}}, nil
}

// holds returns an error, which denies the request, if the server does not answer in time.
func (r byRemote) holds(q *evaluation) (bool, error) {
	rest, found, err := r.of.fill(q.target)
	if err != nil {
		return false, err
	}
	if !found {
		return false, fmt.Errorf("the target lacks a value that the address %s needs", r)
	}
	ok, err := q.set.remote.post(r.kind+":"+rest, q)
	if err != nil {
		return false, fmt.Errorf("the remote check %s: %w", r, err)
	}
	return ok, nil
}

// post sends the rule, the target and the credentials to a server, and reports whether it answers True.
func (r *remote) post(address string, q *evaluation) (bool, error) {
	ctx, cancel := context.WithTimeout(context.Background(), r.timeout)
	defer cancel()
	fields := map[string]any{"rule": q.rule, "target": q.target, "credentials": q.creds}
	kind := "application/json"
	body, err := json.Marshal(fields)
	if err == nil && !r.asJSON {
		kind = "application/x-www-form-urlencoded"
		form := url.Values{}
		for name, value := range fields {
			text, err := json.Marshal(value)
			if err != nil {
				return false, err
			}
			form.Set(name, string(text))
		}
		body = []byte(form.Encode())
	}
	if err != nil {
		return false, err
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, address, bytes.NewReader(body))
	if err != nil {
		return false, err
	}
	request.Header.Set("Content-Type", kind)
	response, err := r.client.Do(request)
	if err != nil {
		return false, err
	}
	defer response.Body.Close()
	text, err := io.ReadAll(io.LimitReader(response.Body, maxAnswerBytes))
	if err != nil {
		return false, err
	}
	return strings.Trim(string(text), `"`) == "True", nil
}
