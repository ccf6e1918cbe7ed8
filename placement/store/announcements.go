package store

import (
	"context"
	"slices"
	"strings"

	"github.com/openberth/berth/provider"
)

// announcements is the channel on which the Placements on one database announce their writes.
const announcements = "berth_placement_writes"

// announcedRoots is how many roots one text has: with the writer, 7.5 of the at most 8 kB.
const announcedRoots = 200

// Announces reports whether Placements on this database can announce their writes to each other.
func (s *Store) Announces() bool { return s.db.Notifies() }

// Announce says to the other Placements on the database that this one, writer, has committed changes of the trees with
// these roots. It may be lost: a Placement finds all changes of others by polling.
func (s *Store) Announce(ctx context.Context, writer string, roots []provider.ID) error {
	for some := range slices.Chunk(roots, announcedRoots) {
		text := writer
		for _, root := range some {
			text += " " + string(root)
		}
		if err := s.db.Notify(ctx, announcements, text); err != nil {
			return wrapError(err)
		}
	}
	return nil
}

// Announced passes what other Placements announce to each until ctx ends or the database is lost. listening is called
// when announcements begin to arrive.
func (s *Store) Announced(ctx context.Context, listening func(), each func(writer string, roots []provider.ID)) error {
	return wrapError(s.db.Listen(ctx, announcements, listening, func(text string) {
		parts := strings.Fields(text)
		if len(parts) < 2 {
			return // of another program
		}
		roots := make([]provider.ID, 0, len(parts)-1)
		for _, one := range parts[1:] {
			roots = append(roots, provider.ID(one))
		}
		each(parts[0], roots)
	}))
}
