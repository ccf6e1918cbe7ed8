package join

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"net/http"
	"time"

	"github.com/openberth/berth/api/rest"
	"github.com/openberth/berth/fault"
)

// CertificatesPath is the path at which hosts request certificates, at the address of all APIs.
const CertificatesPath = Path + "/certificates"

// AccountPrefix begins the names of the accounts of hosts that have joined.
const AccountPrefix = "host-"

// maxRequests bounds the body of a request for certificates, and that of its answer.
const maxRequests = 64 << 10

// CertificatesHandler issues certificates to hosts that have joined. account returns the account that a request comes
// from. The faults are Forbidden without a valid name and password, and Conflict for an account that is not of a host.
func CertificatesHandler(a Authorities, account func(*http.Request) (string, error), log *slog.Logger) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodPost {
			w.Header().Set("Allow", http.MethodPost)
			http.Error(w, "send POST", http.StatusMethodNotAllowed)
			return
		}
		name, err := account(r)
		if err != nil {
			status := http.StatusServiceUnavailable
			switch {
			case fault.Is(err, fault.Forbidden):
				status = http.StatusUnauthorized
			case fault.Is(err, fault.Conflict):
				status = http.StatusForbidden
			}
			http.Error(w, fault.TextOf(err), status)
			return
		}
		var requests Requests
		if err := json.NewDecoder(http.MaxBytesReader(w, r.Body, maxRequests)).Decode(&requests); err != nil {
			http.Error(w, "the body has no certificate requests: "+err.Error(), http.StatusBadRequest)
			return
		}
		issued, err := a.Issue(name, requests, time.Now())
		switch {
		case fault.Is(err, fault.Invalid):
			http.Error(w, fault.TextOf(err), http.StatusBadRequest)
		case fault.Is(err, fault.NotFound):
			http.Error(w, fault.TextOf(err), http.StatusNotFound)
		case err != nil:
			log.Error("certificates of a host not issued", "account", name, "error", err)
			http.Error(w, "the authorities cannot be read; the log of the service has the reason",
				http.StatusServiceUnavailable)
		default:
			log.Info("certificates issued to a host", "account", name, "from", r.RemoteAddr)
			rest.WriteJSON(w, http.StatusOK, issued)
		}
	})
}

// Certify requests certificates with the account of a host at the address of all APIs. The fault is Forbidden if the
// service does not accept the account.
func Certify(ctx context.Context, transport http.RoundTripper, address string, g Grant,
	requests Requests) (Certificates, error) {
	body, err := json.Marshal(requests)
	if err != nil {
		return nil, fault.Wrap(fault.Internal, err)
	}
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, address+CertificatesPath, bytes.NewReader(body))
	if err != nil {
		return nil, fault.Wrap(fault.Invalid, err)
	}
	r.Header.Set("Content-Type", "application/json")
	r.SetBasicAuth(g.Account, g.Password)
	client := &http.Client{Transport: transport, Timeout: exchangeTime,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	answer, err := client.Do(r)
	if err != nil {
		return nil, fault.New(fault.Unavailable, "%s does not answer: %w", address, err)
	}
	defer answer.Body.Close()
	data, err := io.ReadAll(io.LimitReader(answer.Body, maxRequests))
	if err != nil {
		return nil, fault.New(fault.Unavailable, "the answer of %s is not complete: %w", address, err)
	}
	if answer.StatusCode != http.StatusOK {
		kind := fault.Unavailable
		if answer.StatusCode == http.StatusUnauthorized {
			kind = fault.Forbidden
		}
		return nil, fault.New(kind, "%s issues no certificates, with status %d: %s", address,
			answer.StatusCode, bytes.TrimSpace(data))
	}
	var issued Certificates
	if err := json.Unmarshal(data, &issued); err != nil {
		return nil, fault.New(fault.Unavailable, "the answer of %s has no certificates: %w", address, err)
	}
	for _, purpose := range purposes {
		if issued[purpose].CA == "" || issued[purpose].Certificate == "" {
			return nil, fault.New(fault.Unavailable, "the answer of %s has no certificate for %s", address, purpose)
		}
	}
	return issued, nil
}
