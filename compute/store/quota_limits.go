package store

import (
	"context"
	"database/sql"
	"maps"
	"slices"
	"strings"

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
	class, of, own := QuotaOwner{User: DefaultClass}, QuotaOwner{Project: project}, QuotaOwner{project, user}
	limits, err = s.limits.get(&s.db, own, func() (limits ProjectLimits, err error) {
		err = s.db.ReadOne(ctx, func(tx *sqldb.Tx) error {
			set, err := readLimits(ctx, tx, class, of, own)
			limits = ProjectLimits{Project: s.quotaDefaults.With(set[class]).With(set[of])}
			if user != "" {
				limits.User = set[own]
			}
			return err
		})
		return limits, wrap(err)
	})
	return ProjectLimits{maps.Clone(limits.Project), maps.Clone(limits.User)}, err
}

// readLimits reads the limits that are stored for owners.
func readLimits(ctx context.Context, tx *sqldb.Tx, owners ...QuotaOwner) (map[QuotaOwner]quota.Amounts, error) {
	w := &where{}
	for _, o := range owners {
		w.and("(project = ? AND user_id = ?)", o.Project, o.User)
	}
	set := map[QuotaOwner]quota.Amounts{}
	return set, sqldb.QueryEach(ctx, tx, `SELECT project, user_id, resource, amount FROM compute_quotas WHERE `+
		strings.Join(w.conditions, " OR "), w.args, func(rows *sql.Rows) error {
		var o QuotaOwner
		var resource string
		var amount int
		if err := rows.Scan(&o.Project, &o.User, &resource, &amount); err != nil {
			return err
		}
		if set[o] == nil {
			set[o] = quota.Amounts{}
		}
		set[o][resource] = amount
		return nil
	})
}

// ClassLimits returns the limits of a quota class: those of the configuration, with those that are set for the class.
func (s *Store) ClassLimits(ctx context.Context, class string) (limits quota.Amounts, err error) {
	if s.quotaSource != nil {
		limits, err = s.quotaSource(ctx, "")
		return limits, wrap(err)
	}
	owner := QuotaOwner{User: class}
	err = s.db.ReadOne(ctx, func(tx *sqldb.Tx) error {
		set, err := readLimits(ctx, tx, owner)
		limits = s.quotaDefaults.With(set[owner])
		return err
	})
	return limits, wrap(err)
}

// QuotaOwner is what limits are set for: a project, or a user in a project, or a quota class, which is a user of no
// project.
type QuotaOwner struct{ Project, User string }

// SetLimits sets limits, and keeps the others.
func (s *Store) SetLimits(ctx context.Context, o QuotaOwner, limits quota.Amounts) error {
	defer s.limits.forget()
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
	defer s.limits.forget()
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
