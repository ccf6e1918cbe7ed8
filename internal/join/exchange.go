package join

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/openberth/berth/api/rest"
	"github.com/openberth/berth/fault"
)

// Path is the path of the exchange at the address of all APIs.
const Path = "/berth/v1/join"

// maxRequest bounds the body of a request, and that of an answer.
const maxRequest = 4096

// request is the body of a request.
type request struct {
	Secret string `json:"secret"` // base64url
}

// Handler answers a request with the secret of a token with the account of the token. It needs no account.
func Handler(t Tokens, log *slog.Logger) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodPost {
			w.Header().Set("Allow", http.MethodPost)
			http.Error(w, "send POST", http.StatusMethodNotAllowed)
			return
		}
		var body request
		err := json.NewDecoder(http.MaxBytesReader(w, r.Body, maxRequest)).Decode(&body)
		data, bad := base64.RawURLEncoding.DecodeString(body.Secret)
		if err != nil || bad != nil || len(data) != len(Secret{}) {
			http.Error(w, "the body is not {\"secret\": \"…\"}", http.StatusBadRequest)
			return
		}
		g, err := t.Redeem(Secret(data), time.Now())
		switch {
		case fault.Is(err, fault.Forbidden):
			log.Warn("token of a new host refused", "from", r.RemoteAddr)
			http.Error(w, fault.TextOf(err), http.StatusForbidden)
		case err != nil:
			log.Error("token of a new host not redeemed", "error", err)
			http.Error(w, "the tokens cannot be read or written; the log of the service has the reason",
				http.StatusServiceUnavailable)
		default:
			log.Info("a new host has redeemed its token", "account", g.Account, "from", r.RemoteAddr)
			rest.WriteJSON(w, http.StatusOK, g)
		}
	})
}

// Joined is what a machine has after the exchange.
type Joined struct {
	Grant
	CA    []byte // the certificate of the authority, in PEM
	Local string // the address of this machine, as the connection has it
}

// exchangeTime is the time limit of the exchange.
const exchangeTime = 30 * time.Second

// Call exchanges a token for an account at the address of all APIs. It sends the secret only to a server whose
// certificate is issued by the authority of the token, and valid for the name in the address.
func Call(ctx context.Context, address, text string) (j Joined, err error) {
	fingerprint, secret, err := Parse(text)
	if err != nil {
		return j, err
	}
	at, err := url.Parse(strings.TrimRight(address, "/"))
	if err != nil || at.Scheme != "https" || at.Host == "" || at.Path != "" {
		return j, fault.New(fault.Invalid, "%q is not the address of a cloud; write https://ADDRESS:PORT, as `berth init "+
			"token` prints it", address)
	}
	dialer := net.Dialer{Timeout: exchangeTime}
	transport := &http.Transport{DisableKeepAlives: true, TLSClientConfig: pinned(fingerprint, at.Hostname(), &j),
		DialContext: func(ctx context.Context, network, to string) (net.Conn, error) {
			conn, err := dialer.DialContext(ctx, network, to)
			if err == nil {
				j.Local, _, _ = net.SplitHostPort(conn.LocalAddr().String()) // an address of TCP has a port
			}
			return conn, err
		}}
	client := &http.Client{Transport: transport, Timeout: exchangeTime,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	body, err := json.Marshal(request{Secret: base64.RawURLEncoding.EncodeToString(secret[:])})
	if err != nil {
		return j, fault.Wrap(fault.Internal, err)
	}
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, at.String()+Path, bytes.NewReader(body))
	if err != nil {
		return j, fault.Wrap(fault.Invalid, err)
	}
	r.Header.Set("Content-Type", "application/json")
	answer, err := client.Do(r)
	if err != nil {
		if wrong, ok := errors.AsType[*tls.CertificateVerificationError](err); ok {
			err = wrong.Err
		}
		return j, fault.New(fault.Unavailable, "%s does not answer as the cloud of the token: %w", at, err)
	}
	defer answer.Body.Close()
	data, err := io.ReadAll(io.LimitReader(answer.Body, maxRequest))
	switch {
	case err != nil:
		return j, fault.New(fault.Unavailable, "the answer of %s is not complete: %w; the token is used, make another one",
			at, err)
	case answer.StatusCode == http.StatusForbidden:
		return j, fault.New(fault.Forbidden, "%s", bytes.TrimSpace(data))
	case answer.StatusCode != http.StatusOK:
		return j, fault.New(fault.Unavailable, "%s answered with status %d: %s", at, answer.StatusCode,
			bytes.TrimSpace(data))
	}
	if json.Unmarshal(data, &j.Grant) != nil || j.Account == "" || j.Password == "" {
		return j, fault.New(fault.Unavailable, "the answer of %s is not that of a cloud", at)
	}
	return j, nil
}

// pinned returns a configuration that accepts only a server whose chain has the authority of the fingerprint, and a
// certificate that this authority issued for the name. It sets the authority.
func pinned(f Fingerprint, name string, j *Joined) *tls.Config {
	return &tls.Config{MinVersion: tls.VersionTLS12, InsecureSkipVerify: true, // VerifyConnection verifies
		VerifyConnection: func(s tls.ConnectionState) error {
			for _, authority := range s.PeerCertificates[1:] {
				if FingerprintOf(authority.Raw) != f {
					continue
				}
				roots := x509.NewCertPool()
				roots.AddCert(authority)
				if _, err := s.PeerCertificates[0].Verify(x509.VerifyOptions{Roots: roots, DNSName: name}); err != nil {
					return err
				}
				j.CA = pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: authority.Raw})
				return nil
			}
			return errors.New("its certificate is not of the authority that the token names; check the address, and make " +
				"the token on the machine with this address")
		}}
}
