package store

import (
	"context"
	"maps"
	"slices"

	"github.com/openberth/berth/compute/quota"
	"github.com/openberth/berth/sqldb"
)

// DefaultClass is the quota class whose limits are those of all projects.
const DefaultClass = "default"

// QuotaSource returns the limits of a project where they are not in the database; fault.Unavailable.
type QuotaSource func(ctx context.Context, project string) (quota.Amounts, error)

// SetQuotas sets what limits apply without rows in the database, before the store is used. With a source, which may
// be nil, the database is not asked.
func (s *Store) SetQuotas(defaults quota.Amounts, source QuotaSource) {
	s.quotaDefaults, s.quotaSource = defaults, source
}

// LimitsElsewhere reports whether limits are those of another service, so that they cannot be set.
func (s *Store) LimitsElsewhere() bool { return s.quotaSource != nil }

// ProjectLimits are the limits of a project, and those of a user in it.
type ProjectLimits struct {
	Project quota.Amounts
	User    quota.Amounts // those that are set for the user alone
}

// Effective returns the limits for a user: his own, and those of the project for all others.
func (l ProjectLimits) Effective() quota.Amounts { return l.Project.With(l.User) }

// Limits returns the limits of a project and of a user in it. The user may be empty.
func (s *Store) Limits(ctx context.Context, project, user string) (limits ProjectLimits, err error) {
	if s.quotaSource != nil {
		limits.Project, err = s.quotaSource(ctx, project)
		return limits, wrap(err)
	}
	err = s.db.Read(ctx, func(tx *sqldb.Tx) error {
		limits.Project = maps.Clone(s.quotaDefaults)
		for _, owner := range []QuotaOwner{{User: DefaultClass}, {Project: project}} {
			set, err := readLimits(ctx, tx, owner)
			if err != nil {
				return err
			}
			limits.Project = limits.Project.With(set)
		}
		if user != "" {
			limits.User, err = readLimits(ctx, tx, QuotaOwner{project, user})
		}
		return err
	})
	return limits, wrap(err)
}

// readLimits returns the limits that are set for an owner.
func readLimits(ctx context.Context, tx *sqldb.Tx, o QuotaOwner) (quota.Amounts, error) {
	return sqldb.QueryMap[string, int](ctx, tx, `SELECT resource, amount FROM compute_quotas
		WHERE project = ? AND user_id = ?`, o.Project, o.User)
}

// ClassLimits returns the limits of a quota class: those of the configuration, with those that are set for the class.
func (s *Store) ClassLimits(ctx context.Context, class string) (limits quota.Amounts, err error) {
	if s.quotaSource != nil {
		limits, err = s.quotaSource(ctx, "")
		return limits, wrap(err)
	}
	err = s.db.Read(ctx, func(tx *sqldb.Tx) error {
		set, err := readLimits(ctx, tx, QuotaOwner{User: class})
		limits = s.quotaDefaults.With(set)
		return err
	})
	return limits, wrap(err)
}

// QuotaOwner is what limits are set for: a project, or a user in a project, or a quota class, which is a user of no
// project.
type QuotaOwner struct{ Project, User string }

// SetLimits sets limits, and keeps the others.
func (s *Store) SetLimits(ctx context.Context, o QuotaOwner, limits quota.Amounts) error {
	return wrap(s.db.Write(ctx, func(tx *sqldb.Tx) error {
		for _, resource := range slices.Sorted(maps.Keys(limits)) {
			err := tx.Upsert(ctx, "compute_quotas", []string{"project", "user_id", "resource"}, []string{"amount"},
				o.Project, o.User, resource, limits[resource])
			if err != nil {
				return err
			}
		}
		return nil
	}))
}

// ResetLimits removes the limits that are set for a user in a project, or for a project and all its users.
func (s *Store) ResetLimits(ctx context.Context, project, user string) error {
	return wrap(s.db.Write(ctx, func(tx *sqldb.Tx) error {
		w := &where{}
		w.and("project = ?", project)
		if user != "" {
			w.and("user_id = ?", user)
		}
		_, err := tx.Exec(ctx, `DELETE FROM compute_quotas`+w.sql(), w.args...)
		return err
	}))
}
