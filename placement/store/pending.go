package store

import "github.com/openberth/berth/fault"

func (s *Store) pending(op string) error {
	return fault.New(fault.Internal, "placement.store."+op, "is not built yet")
}
