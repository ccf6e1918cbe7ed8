package app

import (
	"crypto/rand"
	"crypto/subtle"
	"net/http"

	"github.com/openberth/berth/api/identity"
)

// internalUser is the account with which the services of one process call each other. No account of a user file has a
// colon in its name, and Keystone's ids have none.
const internalUser = "berth:internal"

// internalAccount signs the requests between the services of one process with a random token, so that `berth up` needs
// no password of its own. It is a rest.Account.
type internalAccount struct{ token string }

func newInternalAccount() internalAccount { return internalAccount{rand.Text() + rand.Text()} }

// Sign adds the token.
func (a internalAccount) Sign(r *http.Request) error {
	r.Header.Set("X-Auth-Token", a.token)
	return nil
}

// Renew reports that the token does not change.
func (a internalAccount) Renew(*http.Request) bool { return false }

// accepted returns an authentication that accepts the token beside the credentials of others.
func (a internalAccount) accepted(others authentication) authentication {
	next := others.caller
	others.caller = func(r *http.Request) (identity.Identity, error) {
		if subtle.ConstantTimeCompare([]byte(r.Header.Get("X-Auth-Token")), []byte(a.token)) == 1 {
			return identity.Identity{User: internalUser, UserName: internalUser, Project: "service", ProjectName: "service",
				Roles: []string{"admin", "service", "member", "reader"}}, nil
		}
		return next(r)
	}
	return others
}
