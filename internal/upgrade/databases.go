package upgrade

import (
	"cmp"
	"context"
	"errors"
	"fmt"

	computestore "github.com/openberth/berth/compute/store"
	"github.com/openberth/berth/fault"
	"github.com/openberth/berth/internal/backup"
	networkstore "github.com/openberth/berth/network/store"
	"github.com/openberth/berth/placement/store"
	placementstore "github.com/openberth/berth/placement/store"
	"github.com/openberth/berth/provider"
	"github.com/openberth/berth/sqldb"
)

// service is what a check needs of the database of a service.
type service struct {
	schema     func(context.Context, *sqldb.DB) (recorded, all int, err error)
	migrate    func(context.Context, *sqldb.DB) error
	unreadable func(context.Context, *sqldb.DB) (bad []error, records int, err error)
}

// services have tables of Berth. Placement has those of OpenStack.
var services = map[backup.Name]service{
	backup.Compute: {computestore.Schema, func(ctx context.Context, db *sqldb.DB) error {
		_, err := computestore.Open(ctx, db)
		return err
	}, computestore.Unreadable},
	backup.Network: {networkstore.Schema, func(ctx context.Context, db *sqldb.DB) error {
		_, err := networkstore.Open(ctx, db)
		return err
	}, networkstore.Unreadable},
}

// database checks a database: a copy if isCopy, which is migrated; otherwise one that is only read. due is how many
// migrations were not tried.
func database(ctx context.Context, url string, isCopy bool, p *Part) (due int, err error) {
	db, err := sqldb.Open(ctx, url)
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	if p.Name == backup.Placement {
		return 0, placement(ctx, db, isCopy, p)
	}
	s := services[p.Name]
	recorded, all, err := s.schema(ctx, db)
	if err != nil {
		return 0, err
	}
	p.Before, p.After = fmt.Sprintf("%d of %d", recorded, all), fmt.Sprintf("%d of %d", all, all)
	if recorded < all && !isCopy {
		p.After = p.Before
		return all - recorded, nil
	}
	if isCopy {
		if err := s.migrate(ctx, db); err != nil {
			return 0, fault.New(fault.KindOf(err), "cannot migrate a copy of it: %w", err)
		}
	}
	bad, records, err := s.unreadable(ctx, db)
	p.Records = records - len(bad)
	p.add(bad)
	return 0, err
}

// placement checks a database of Placement, also one that OpenStack's Placement has made: its revision, and whether the
// providers with their inventories, traits and allocations can be read.
func placement(ctx context.Context, db *sqldb.DB, isCopy bool, p *Part) error {
	st, err := placementstore.Open(ctx, db)
	if err != nil {
		return err
	}
	version := func() (string, error) {
		version, err := st.Version(ctx)
		return cmp.Or(version, "none (the database is empty)"), err
	}
	if p.Before, err = version(); err != nil {
		return err
	}
	if isCopy {
		if err := st.Sync(ctx); err != nil {
			return fault.New(fault.KindOf(err), "cannot complete a copy of it: %w", err)
		}
		if err := st.CreateHistory(ctx); err != nil {
			return fault.New(fault.KindOf(err), "cannot add the usage history to a copy of it: %w", err)
		}
	}
	if p.After, err = version(); err != nil || p.After == "none (the database is empty)" {
		return err
	}
	return st.Trees(ctx, func(_ provider.ID, rows []store.Row) { p.Records += len(rows) })
}

// add adds the texts of errors of records.
func (p *Part) add(bad []error) {
	for _, err := range bad {
		p.Unreadable = append(p.Unreadable, fault.TextOf(err))
	}
}
