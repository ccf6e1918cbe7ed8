package catalog

import (
	"net/http"
	"regexp"

	"github.com/openberth/berth/api/compute"
	"github.com/openberth/berth/api/edge"
	"github.com/openberth/berth/compute/policies"
	"github.com/openberth/berth/compute/quota"
	"github.com/openberth/berth/compute/server/request"
	"github.com/openberth/berth/compute/store"
	"github.com/openberth/berth/fault"
)

// keyPairRoutes returns the paths of key pairs.
func keyPairRoutes(s *Handlers) request.Routes {
	return request.Routes{
		"/v2.1/os-keypairs": {
			http.MethodGet:  request.Guarded(policies.ListKeyPairs, s.listKeyPairs),
			http.MethodPost: request.Guarded(policies.CreateKeyPair, s.createKeyPair),
		},
		"/v2.1/os-keypairs/{name}": {
			http.MethodGet:    request.Guarded(policies.ShowKeyPair, s.showKeyPair),
			http.MethodDelete: request.Guarded(policies.DeleteKeyPair, s.deleteKeyPair),
		},
	}
}

// The names that the Compute API allows: keyPairName before 2.92, importedName since.
var (
	keyPairName  = nameForm{regexp.MustCompile(`^[a-zA-Z0-9_-]([a-zA-Z0-9 _-]*[a-zA-Z0-9_-])?$`)}
	importedName = nameForm{regexp.MustCompile(`^[a-zA-Z0-9@._-]([a-zA-Z0-9 @._-]*[a-zA-Z0-9@._-])?$`)}
)

// keyPairUser returns the user whose key pairs a request is about: the caller or, since 2.10, another one if
// the policy allows it.
func keyPairUser(c *request.Call, other string) (string, error) {
	if !c.Has(compute.KeyPairUser) || other == "" || other == c.Who.User {
		return c.Who.User, nil
	}
	return other, request.AuthorizeOther(c, c.Spec.Rule, "user "+edge.Clip(other), map[string]any{"user_id": other})
}

// listKeyPairs is GET /v2.1/os-keypairs: those of one user, sorted by name. Nova's rule is
// os_compute_api:os-keypairs:index.
func (s *Handlers) listKeyPairs(c *request.Call) error {
	q := c.R.URL.Query()
	user, err := keyPairUser(c, q.Get("user_id"))
	if err != nil {
		return err
	}
	limit, marker := request.MaxLimit, ""
	if c.Has(compute.KeyPairPages) {
		if limit, marker, err = c.ReadPage(q); err != nil {
			return err
		}
	}
	if marker != "" {
		if _, err := s.KeyPairs.KeyPair(c.R.Context(), user, marker); fault.Is(err, fault.NotFound) {
			return fault.New(fault.Invalid, "marker [%s] not found", edge.Clip(marker))
		} else if err != nil {
			return err
		}
	}
	var found []store.KeyPair
	if limit > 0 {
		if found, err = s.KeyPairs.KeyPairs(c.R.Context(), user, marker, limit); err != nil {
			return err
		}
	}
	list := make([]any, 0, len(found))
	for _, k := range found {
		list = append(list, map[string]any{"keypair": keyPairView(c, k)})
	}
	body := map[string]any{"keypairs": list}
	if len(found) > 0 && c.Has(compute.KeyPairPages) {
		if next := c.NextLinks(limit, len(found), found[len(found)-1].Name); next != nil {
			body["keypairs_links"] = next
		}
	}
	return c.WriteJSON(http.StatusOK, body)
}

// keyPairView returns the view of a key pair in a list.
func keyPairView(c *request.Call, k store.KeyPair) compute.KeyPair {
	v := compute.KeyPair{Name: k.Name, PublicKey: k.PublicKey, Fingerprint: k.Fingerprint}
	if c.Has(compute.KeyPairType) {
		v.Type = k.Type
	}
	return v
}

func (s *Handlers) showKeyPair(c *request.Call) error {
	user, err := keyPairUser(c, c.R.URL.Query().Get("user_id"))
	if err != nil {
		return err
	}
	k, err := s.KeyPairs.KeyPair(c.R.Context(), user, c.R.PathValue("name"))
	if err != nil {
		return err
	}
	v := keyPairView(c, k)
	v.UserID, v.KeyPairDetails = k.User, &compute.KeyPairDetails{ID: k.Number, Created: request.Micros(k.Created)}
	return c.WriteJSON(http.StatusOK, map[string]any{"keypair": v})
}

// createKeyPair is POST /v2.1/os-keypairs: it stores the given public key, or generates a key pair (until 2.91) and
// returns its private key, which is not stored. Nova's rule is os_compute_api:os-keypairs:create.
func (s *Handlers) createKeyPair(c *request.Call) error {
	k, private, err := s.readKeyPair(c)
	if err != nil {
		return err
	}
	most, err := s.Limit(c, quota.KeyPairs)
	if err != nil {
		return err
	}
	if k, err = s.KeyPairs.CreateKeyPair(c.R.Context(), k, most); err != nil {
		return err
	}
	v := keyPairView(c, k)
	v.UserID, v.PrivateKey = k.User, request.OrNull(private)
	code := http.StatusOK
	if c.Has(compute.KeyPairType) {
		code = http.StatusCreated
	}
	return c.WriteJSON(code, map[string]any{"keypair": v})
}

// readKeyPair reads the body. private is the generated private key, or empty.
func (s *Handlers) readKeyPair(c *request.Call) (k store.KeyPair, private string, err error) {
	o, others, err := c.Object("keypair")
	if err == nil {
		err = c.RefuseOthers("keypair", others)
	}
	if err != nil {
		return k, "", err
	}
	k = store.KeyPair{User: c.Who.User, Type: "ssh", Created: s.Now()}
	o.Require("name")
	allowed, more := keyPairName, ""
	if c.Has(compute.KeyPairImport) {
		allowed, more = importedName, "@, ., "
		o.Require("public_key")
	}
	if o.Text("name", &k.Name, 255); o.Err() == nil && !allowed.MatchString(k.Name) {
		o.Invalid("name", "it is %q; letters, digits, %sspaces, hyphens and underscores are allowed, "+
			"and no space at its ends", edge.Clip(k.Name), more)
	}
	given := o.Text("public_key", &k.PublicKey, 16384)
	if c.Has(compute.KeyPairType) {
		kind := k.Type
		if o.Text("type", &kind, 16); kind != k.Type {
			o.Invalid("type", "it is %q, and Berth supports only ssh", edge.Clip(kind))
		}
	}
	if c.Has(compute.KeyPairUser) {
		other := ""
		o.Text("user_id", &other, 255)
		if k.User, err = keyPairUser(c, other); err != nil {
			return k, "", err
		}
	}
	if err := o.Finish(); err != nil {
		return k, "", err
	}
	if !given {
		if k.PublicKey, private, err = generateKey(); err != nil {
			return k, "", err
		}
	}
	k.Fingerprint, err = fingerprint(k.PublicKey)
	return k, private, err
}

func (s *Handlers) deleteKeyPair(c *request.Call) error {
	user, err := keyPairUser(c, c.R.URL.Query().Get("user_id"))
	if err != nil {
		return err
	}
	if err := s.KeyPairs.DeleteKeyPair(c.R.Context(), user, c.R.PathValue("name")); err != nil {
		return err
	}
	if c.Has(compute.KeyPairType) {
		return c.WriteStatus(http.StatusNoContent)
	}
	return c.WriteStatus(http.StatusAccepted)
}

// PublicKey returns the public key of a user's key pair for a new or rebuilt server; empty without a name. It returns
// fault.Invalid for a key pair that the user does not have.
func (s *Handlers) PublicKey(c *request.Call, user, name string) (string, error) {
	if name == "" {
		return "", nil
	}
	k, err := s.KeyPairs.KeyPair(c.R.Context(), user, name)
	if fault.Is(err, fault.NotFound) {
		return "", fault.New(fault.Invalid, "Invalid key_name provided: user %s has no key pair %s", user,
			edge.Clip(name))
	}
	return k.PublicKey, err
}
