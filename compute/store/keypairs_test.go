package store_test

import (
	"testing"

	"github.com/openberth/berth/compute/store"
	"github.com/openberth/berth/fault"
)

func keyPairs(t *testing.T, s *store.Store) {
	ctx := t.Context()
	k := store.KeyPair{User: "ann", Name: "a", Type: "ssh", PublicKey: "ssh-ed25519 AAAA", Fingerprint: "00:11",
		Created: noon}
	made, err := s.CreateKeyPair(ctx, k, 2)
	must(t, err)
	got, err := s.KeyPair(ctx, "ann", "a")
	must(t, err)
	if k.Number = 1; made != k || got != k {
		t.Errorf("made %+v, read %+v", made, got)
	}
	_, err = s.CreateKeyPair(ctx, k, 2)
	is(t, err, fault.Conflict)
	k.Name = "B" // names are compared byte by byte, on every database
	_, err = s.CreateKeyPair(ctx, k, 2)
	must(t, err)
	k.Name = "c"
	_, err = s.CreateKeyPair(ctx, k, 2)
	is(t, err, fault.Forbidden)
	k.User, k.Name = "bob", "a"
	_, err = s.CreateKeyPair(ctx, k, 2)
	must(t, err)
	for _, c := range []struct {
		after string
		limit int
		want  []string
	}{{"", 0, []string{"B", "a"}}, {"", 1, []string{"B"}}, {"B", 0, []string{"a"}}, {"a", 0, nil}} {
		list, err := s.KeyPairs(ctx, "ann", c.after, c.limit)
		must(t, err)
		var names []string
		for _, one := range list {
			names = append(names, one.Name)
		}
		if len(names) != len(c.want) || len(names) > 0 && names[0] != c.want[0] {
			t.Errorf("after %q: %v, want %v", c.after, names, c.want)
		}
	}
	must(t, s.DeleteKeyPair(ctx, "ann", "a"))
	is(t, s.DeleteKeyPair(ctx, "ann", "a"), fault.NotFound)
	_, err = s.KeyPair(ctx, "ann", "a")
	is(t, err, fault.NotFound)
	_, err = s.KeyPair(ctx, "bob", "a")
	must(t, err)
}
