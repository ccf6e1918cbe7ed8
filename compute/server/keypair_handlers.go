package server

import (
	"net/http"
	"regexp"

	"github.com/openberth/berth/api/compute"
	"github.com/openberth/berth/compute/store"
	"github.com/openberth/berth/fault"
)

// maxKeyPairs is how many key pairs a user may have, as in Nova's default quota.
const maxKeyPairs = 100

// keyPairName matches the names that the Compute API allows before 2.92.
var keyPairName = regexp.MustCompile(`^[a-zA-Z0-9_-]([a-zA-Z0-9 _-]{0,253}[a-zA-Z0-9_-])?$`)

// keyPairUser returns the user whose key pairs a request is about: the caller or, since 2.10, another one if
// the policy allows it.
func (c *call) keyPairUser(other string) (string, error) {
	if !c.version.Has(compute.KeyPairUser) || other == "" || other == c.Who.User {
		return c.Who.User, nil
	}
	return other, authorizeOther(c, c.Spec.Rule, "user "+clip(other), map[string]any{"user_id": other})
}

// listKeyPairs is GET /v2.1/os-keypairs: those of one user, sorted by name. Nova's rule is
// os_compute_api:os-keypairs:index.
func (s *server) listKeyPairs(c *call) error {
	q := c.R.URL.Query()
	user, err := c.keyPairUser(q.Get("user_id"))
	if err != nil {
		return err
	}
	limit, marker := maxLimit, ""
	if c.version.Has(compute.KeyPairPages) {
		if limit, marker, err = c.readPage(q); err != nil {
			return err
		}
	}
	if marker != "" {
		if _, err := s.Store.KeyPair(c.R.Context(), user, marker); fault.Is(err, fault.NotFound) {
			return fault.New(fault.Invalid, "marker [%s] not found", clip(marker))
		} else if err != nil {
			return err
		}
	}
	var found []store.KeyPair
	if limit > 0 {
		if found, err = s.Store.KeyPairs(c.R.Context(), user, marker, limit); err != nil {
			return err
		}
	}
	list := make([]any, 0, len(found))
	for _, k := range found {
		list = append(list, map[string]any{"keypair": c.keyPair(k)})
	}
	body := map[string]any{"keypairs": list}
	if len(found) > 0 && c.version.Has(compute.KeyPairPages) {
		if next := c.nextLinks(limit, len(found), found[len(found)-1].Name); next != nil {
			body["keypairs_links"] = next
		}
	}
	return c.writeJSON(http.StatusOK, body)
}

// keyPair returns the view of a key pair in a list.
func (c *call) keyPair(k store.KeyPair) compute.KeyPair {
	v := compute.KeyPair{Name: k.Name, PublicKey: k.PublicKey, Fingerprint: k.Fingerprint}
	if c.version.Has(compute.KeyPairType) {
		v.Type = k.Type
	}
	return v
}

// showKeyPair is GET /v2.1/os-keypairs/{name}. Nova's rule is os_compute_api:os-keypairs:show.
func (s *server) showKeyPair(c *call) error {
	user, err := c.keyPairUser(c.R.URL.Query().Get("user_id"))
	if err != nil {
		return err
	}
	k, err := s.Store.KeyPair(c.R.Context(), user, c.R.PathValue("name"))
	if err != nil {
		return err
	}
	v := c.keyPair(k)
	v.UserID, v.KeyPairDetails = k.User, &compute.KeyPairDetails{ID: k.Number, Created: apiMicros(k.Created)}
	return c.writeJSON(http.StatusOK, map[string]any{"keypair": v})
}

// createKeyPair is POST /v2.1/os-keypairs: it stores the given public key, or generates a key pair and returns its
// private key, which is not stored. Nova's rule is os_compute_api:os-keypairs:create.
func (s *server) createKeyPair(c *call) error {
	k, private, err := s.readKeyPair(c)
	if err != nil {
		return err
	}
	if k, err = s.Store.CreateKeyPair(c.R.Context(), k, maxKeyPairs); err != nil {
		return err
	}
	v := c.keyPair(k)
	v.UserID, v.PrivateKey = k.User, orNull(private)
	code := http.StatusOK
	if c.version.Has(compute.KeyPairType) {
		code = http.StatusCreated
	}
	return c.writeJSON(code, map[string]any{"keypair": v})
}

// readKeyPair reads the body. private is the generated private key, or empty.
func (s *server) readKeyPair(c *call) (k store.KeyPair, private string, err error) {
	o, others, err := c.wrapped("keypair")
	if err == nil {
		err = refuseOthers("keypair", others)
	}
	if err != nil {
		return k, "", err
	}
	k = store.KeyPair{User: c.Who.User, Type: "ssh", Created: s.Now()}
	if k.Name, _ = o.text("name", 1, 255); o.err == nil && !keyPairName.MatchString(k.Name) {
		o.invalid("name", "it is %q; letters, digits, spaces, hyphens and underscores are allowed, "+
			"and no space at its ends", clip(k.Name))
	}
	public, given := o.text("public_key", 0, 16384)
	if c.version.Has(compute.KeyPairType) {
		if kind, ok := o.text("type", 0, 16); ok && kind != k.Type {
			o.invalid("type", "it is %q, and Berth supports only ssh", clip(kind))
		}
	}
	if c.version.Has(compute.KeyPairUser) {
		other, _ := o.text("user_id", 0, 255)
		if k.User, err = c.keyPairUser(other); err != nil {
			return k, "", err
		}
	}
	if err := o.finish(nil); err != nil {
		return k, "", err
	}
	if given {
		k.PublicKey = public
		k.Fingerprint, err = fingerprint(public)
		return k, "", err
	}
	k.PublicKey, private, err = generateKey()
	if err != nil {
		return k, "", err
	}
	k.Fingerprint, err = fingerprint(k.PublicKey)
	return k, private, err
}

// deleteKeyPair is DELETE /v2.1/os-keypairs/{name}. Nova's rule is os_compute_api:os-keypairs:delete.
func (s *server) deleteKeyPair(c *call) error {
	user, err := c.keyPairUser(c.R.URL.Query().Get("user_id"))
	if err != nil {
		return err
	}
	if err := s.Store.DeleteKeyPair(c.R.Context(), user, c.R.PathValue("name")); err != nil {
		return err
	}
	if c.version.Has(compute.KeyPairType) {
		return c.writeStatus(http.StatusNoContent)
	}
	return c.writeStatus(http.StatusAccepted)
}

// publicKey returns the public key of a user's key pair for a new or rebuilt server; empty without a name. It returns
// fault.Invalid for a key pair that the user does not have.
func (s *server) publicKey(c *call, user, name string) (string, error) {
	if name == "" {
		return "", nil
	}
	k, err := s.Store.KeyPair(c.R.Context(), user, name)
	if fault.Is(err, fault.NotFound) {
		return "", fault.New(fault.Invalid, "Invalid key_name provided: user %s has no key pair %s", user, clip(name))
	}
	return k.PublicKey, err
}
