package identity

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/openberth/berth/backoff"
	"github.com/openberth/berth/fault"
)

// maxAnswer is the maximum size of an answer of Keystone, in bytes; a catalog has some thousands.
const maxAnswer = 8 << 20

// session is the service's own token, and the URL at which it validates other tokens.
type session struct {
	token   string
	catalog *tokenBody
	renew   time.Time // when it must be renewed
	expires time.Time
	url     string
	refusal error // why Keystone has rejected the service's own account
	until   time.Time
}

// RefusedAccount is the cause of a fault when Keystone has refused the account itself, such as for a wrong password.
type RefusedAccount struct{ text string }

// Error returns which account was refused, and what to correct.
func (r *RefusedAccount) Error() string { return r.text }

func unavailable(format string, args ...any) error {
	return fault.New(fault.Unavailable, format, args...)
}

// v3Address returns the URL of the v3 API for a URL of Keystone.
func v3Address(address string) string {
	address = strings.TrimRight(address, "/")
	address = strings.TrimSuffix(address, "/v2.0")
	if strings.HasSuffix(address, "/v3") {
		return address
	}
	return address + "/v3"
}

// signIn returns the service's own token, a new one if the old one is about to expire.
func (k *Keystone) signIn(ctx context.Context) (session, error) {
	k.own.Lock()
	s := k.session
	k.own.Unlock()
	if now := k.now(); s.refusal != nil && now.Before(s.until) {
		return s, s.refusal
	} else if s.token != "" && now.Before(s.renew) {
		return s, nil
	}
	answer := k.inFlight.DoChan("own", func() (any, error) {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 2*k.opts.Timeout)
		defer cancel()
		fresh, err := k.authenticate(ctx)
		k.own.Lock()
		defer k.own.Unlock()
		if err == nil || fresh.refusal != nil {
			k.session = fresh
		}
		return fresh, err
	})
	select {
	case <-ctx.Done():
		return session{}, unavailable("Keystone at %s did not answer in time: %w", k.url, ctx.Err())
	case result := <-answer:
		if result.Err != nil && s.token != "" && k.now().Before(s.expires) {
			return s, nil // it could not be renewed yet
		}
		return result.Val.(session), result.Err
	}
}

// forget discards the service's own token, unless it has been renewed already.
func (k *Keystone) forget(token string) {
	k.own.Lock()
	defer k.own.Unlock()
	if k.session.token == token {
		k.session.token = ""
	}
}

// authenticate gets a token for the service itself. A rejected password is not retried at once, because Keystone may
// lock the user.
func (k *Keystone) authenticate(ctx context.Context) (session, error) {
	body, err := json.Marshal(k.opts.body())
	if err != nil {
		return session{}, fault.Wrap(fault.Internal, err)
	}
	began := k.now()
	status, header, text, err := k.call(ctx, http.MethodPost, k.url+"/auth/tokens", body,
		http.Header{"Content-Type": {"application/json"}})
	if err != nil {
		return session{}, err
	}
	switch status {
	case http.StatusCreated, http.StatusOK:
	case http.StatusUnauthorized, http.StatusForbidden, http.StatusBadRequest:
		err := unavailable("%w", &RefusedAccount{fmt.Sprintf("Keystone at %s refuses %s (status %d); correct %s",
			k.url, k.opts.userText(), status, k.opts.place(""))})
		return session{refusal: err, until: began.Add(refusedBackoff)}, err
	default:
		return session{}, unavailable("Keystone at %s answered with status %d when this service signed in; "+
			"check %s", k.url, status, k.opts.place("auth_url"))
	}
	var doc tokenBody
	s := session{token: header.Get("X-Subject-Token"), url: k.url}
	if err := json.Unmarshal(text, &doc); err != nil || s.token == "" || doc.Token.ExpiresAt.IsZero() {
		return session{}, unavailable("Keystone at %s answered with something that is not a token", k.url)
	}
	life := doc.Token.ExpiresAt.Sub(began)
	s.catalog = &doc
	s.expires, s.renew = doc.Token.ExpiresAt, doc.Token.ExpiresAt.Add(-min(renewMargin, life/4))
	if address := doc.identityURL(k.opts.Interface, k.opts.Region); address != "" {
		s.url = v3Address(address)
	} else {
		k.log.Warn("Keystone's catalog does not have Keystone itself; tokens are validated at auth_url",
			"interface", k.opts.Interface, "region", k.opts.Region)
	}
	return s, nil
}

// userText returns the service's user for an error.
func (o KeystoneOptions) userText() string {
	if o.usesApplicationCredential() {
		return "the application credential " + o.ApplicationCredentialID + o.ApplicationCredentialName
	}
	return "the user " + o.Username + o.UserID
}

// callRetry is the wait before a call is retried.
var callRetry = backoff.Exponential{First: 100 * time.Millisecond, Max: 3200 * time.Millisecond}

// call makes one call. It retries a call without an answer, up to the limit.
func (k *Keystone) call(ctx context.Context, method, address string, body []byte, header http.Header) (
	status int, out http.Header, text []byte, err error) {
	for try := 0; ; try++ {
		status, out, text, err = k.once(ctx, method, address, body, header)
		if err == nil {
			return status, out, text, nil
		}
		if try >= k.opts.Retries || k.wait(ctx, callRetry.Wait(try+1)) != nil {
			if cause, ok := errors.AsType[*url.Error](err); ok {
				err = cause.Err // without the address, which the sentence has
			}
			base, _, _ := strings.Cut(address, "/auth/tokens")
			return 0, nil, nil, unavailable("Keystone at %s does not answer: %w", base, err)
		}
	}
}

func (k *Keystone) once(ctx context.Context, method, address string, body []byte, header http.Header) (
	int, http.Header, []byte, error) {
	request, err := http.NewRequestWithContext(ctx, method, address, bytes.NewReader(body))
	if err != nil {
		return 0, nil, nil, err
	}
	request.Header = header.Clone()
	request.Header.Set("User-Agent", "berth")
	request.Header.Set("Accept", "application/json")
	response, err := k.client.Do(request)
	if err != nil {
		return 0, nil, nil, err
	}
	defer response.Body.Close()
	text, err := io.ReadAll(io.LimitReader(response.Body, maxAnswer))
	return response.StatusCode, response.Header, text, err
}

// body returns the service's request for a token.
func (o KeystoneOptions) body() any {
	type doc = map[string]any
	domain := func(id, name string) doc {
		if id != "" {
			return doc{"id": id}
		}
		return doc{"name": name}
	}
	user := doc{}
	switch {
	case o.UserID != "":
		user["id"] = o.UserID
	case o.Username != "":
		user["name"], user["domain"] = o.Username, domain(o.UserDomainID, o.UserDomainName)
	}
	if o.usesApplicationCredential() {
		credential := doc{"secret": o.ApplicationCredentialSecret}
		if o.ApplicationCredentialID != "" {
			credential["id"] = o.ApplicationCredentialID
		} else {
			credential["name"], credential["user"] = o.ApplicationCredentialName, user
		}
		return doc{"auth": doc{"identity": doc{"methods": []string{"application_credential"},
			"application_credential": credential}}}
	}
	user["password"] = o.Password
	auth := doc{"identity": doc{"methods": []string{"password"}, "password": doc{"user": user}}}
	switch {
	case o.TrustID != "":
		auth["scope"] = doc{"OS-TRUST:trust": doc{"id": o.TrustID}}
	case o.ProjectID != "":
		auth["scope"] = doc{"project": doc{"id": o.ProjectID}}
	case o.ProjectName != "":
		auth["scope"] = doc{"project": doc{"name": o.ProjectName,
			"domain": domain(o.ProjectDomainID, o.ProjectDomainName)}}
	case o.DomainID != "" || o.DomainName != "":
		auth["scope"] = doc{"domain": domain(o.DomainID, o.DomainName)}
	case o.SystemScope != "":
		auth["scope"] = doc{"system": doc{"all": true}}
	}
	return doc{"auth": auth}
}
