package store

import (
	"context"
	"time"

	"github.com/openberth/berth/resource"
)

// Class is a resource class that Placement knows.
type Class struct {
	Name     resource.Class
	Modified time.Time // updated_at, or created_at when it never was
}

// Classes lists all resource classes: the standard ones in their own order, then the custom ones as they came.
func (s *Store) Classes(ctx context.Context) ([]Class, error) { return nil, s.pending("Classes") }

// Class reads one resource class; NotFound.
func (s *Store) Class(ctx context.Context, name resource.Class) (Class, error) {
	return Class{}, s.pending("Class")
}

// CreateClass adds a custom class; Conflict: it exists. The caller has judged the name.
func (s *Store) CreateClass(ctx context.Context, name resource.Class) error {
	return s.pending("CreateClass")
}

// EnsureClass adds a custom class unless it is there; created says which. The caller has judged the name.
func (s *Store) EnsureClass(ctx context.Context, name resource.Class) (created bool, err error) {
	return false, s.pending("EnsureClass")
}

// RenameClass is PUT before microversion 1.7. NotFound; Invalid: a standard class; Conflict: the new name is taken.
// The roots of all trees with inventories of the class are in Change.
func (s *Store) RenameClass(ctx context.Context, from, to resource.Class) (Change, error) {
	return Change{}, s.pending("RenameClass")
}

// DeleteClass removes a custom class. NotFound; Invalid: a standard one; Conflict: a provider has inventory of it.
func (s *Store) DeleteClass(ctx context.Context, name resource.Class) error {
	return s.pending("DeleteClass")
}
