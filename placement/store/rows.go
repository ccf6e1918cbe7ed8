package store

import (
	"context"

	"github.com/openberth/berth/provider"
	"github.com/openberth/berth/resource"
)

// Row is a provider with all that it offers, and what of it is taken.
type Row struct {
	provider.Provider
	Used resource.Amounts
}

// Rows reads the whole database at one moment.
func (s *Store) Rows(ctx context.Context) ([]Row, error) { return nil, s.pending("Rows") }

// TreeRows reads the tree whose root this is, at one moment; nothing when it is no root (any more).
func (s *Store) TreeRows(ctx context.Context, root provider.ID) ([]Row, error) {
	return nil, s.pending("TreeRows")
}
