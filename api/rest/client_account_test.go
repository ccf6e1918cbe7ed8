package rest

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"testing"

	"github.com/openberth/berth/fault"
)

// countedAccount signs with the number of its credentials.
type countedAccount struct {
	number int
	fixed  bool // the credentials cannot be renewed
	err    error
}

// Sign adds the number.
func (a *countedAccount) Sign(r *http.Request) error {
	r.Header.Set("X-Auth-Token", fmt.Sprint(a.number))
	return a.err
}

// Renew increments the number.
func (a *countedAccount) Renew(*http.Request) bool {
	a.number++
	return !a.fixed
}

// A request that is answered with 401 is sent once more with new credentials and its body.
func TestRejectedCredentialsAreRenewedOnce(t *testing.T) {
	accepted, bodies := "1", []string{}
	handler := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			t.Error(err)
		}
		bodies = append(bodies, string(body))
		if r.Header.Get("X-Auth-Token") != accepted {
			w.WriteHeader(http.StatusUnauthorized)
		}
	})
	for _, c := range []struct {
		account  *countedAccount
		accepted string
		requests int
		ok       bool
	}{
		{&countedAccount{}, "0", 1, true},
		{&countedAccount{}, "1", 2, true},
		{&countedAccount{}, "2", 2, false},
		{&countedAccount{fixed: true}, "1", 1, false},
	} {
		accepted, bodies = c.accepted, nil
		client := &Client{Base: "http://x", HTTP: InMemory(handler), Account: c.account}
		_, err := client.Do(t.Context(), "PUT", "/", "text", nil)
		if len(bodies) != c.requests || (err == nil) != c.ok || err != nil && !fault.Is(err, fault.Forbidden) {
			t.Errorf("%+v: %d requests, %v", c, len(bodies), err)
		}
		for _, body := range bodies {
			if body != `"text"` {
				t.Errorf("body %s", body)
			}
		}
	}
}

func TestRequestWithoutAccountOrAddressIsNotSent(t *testing.T) {
	sent := 0
	client := &Client{HTTP: InMemory(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { sent++ }))}
	failed := fault.New(fault.Unavailable, "no catalog")
	client.Locate = func(context.Context) (string, error) { return "", failed }
	if _, err := client.Do(t.Context(), "GET", "/", nil, nil); err != failed {
		t.Errorf("%v", err)
	}
	client.Locate = func(context.Context) (string, error) { return "http://located", nil }
	client.Account = &countedAccount{err: failed}
	if _, err := client.Do(t.Context(), "GET", "/", nil, nil); err != failed || sent != 0 {
		t.Errorf("%v, %d requests", err, sent)
	}
	client.Account = nil
	if _, err := client.Do(t.Context(), "GET", "/", nil, nil); err != nil || sent != 1 {
		t.Errorf("%v, %d requests", err, sent)
	}
}
