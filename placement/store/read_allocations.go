package store

import (
	"context"
	"database/sql"
	"time"

	"github.com/openberth/berth/provider"
	"github.com/openberth/berth/resource"
	"github.com/openberth/berth/sqldb"
)

// ConsumerAllocation contains the allocations of a consumer. Without any allocation only Consumer is set, because the
// API shows no more.
type ConsumerAllocation struct {
	Consumer     resource.ConsumerID
	Allocation   resource.Allocation
	Generations  map[provider.ID]int // of the providers in Allocation
	Generation   int                 // of the consumer
	Project      string
	User         string
	ConsumerType string // "unknown" when it has none
	Modified     time.Time
}

// ProviderShare is the allocation of one consumer on one provider.
type ProviderShare struct {
	Amounts    resource.Amounts
	Generation int // of the consumer
	Project    string
	User       string
}

// ProviderAllocations are all allocations on one provider.
type ProviderAllocations struct {
	Generation int // of the provider
	Shares     map[resource.ConsumerID]ProviderShare
	Modified   time.Time // the newest change; zero without allocations
}

// ConsumerAllocations reads the allocations of a consumer. An unknown consumer has none; that is not an error.
func (s *Store) ConsumerAllocations(ctx context.Context,
	consumer resource.ConsumerID) (held ConsumerAllocation, err error) {
	err = s.read(ctx, "ConsumerAllocations", func(tx *sqldb.Tx) error {
		held = ConsumerAllocation{Consumer: consumer, Allocation: resource.Allocation{}, Generations: map[provider.ID]int{}}
		return sqldb.QueryEach(ctx, tx,
			"SELECT p.uuid, COALESCE(p.generation, 0), k.name, a.used, a.created_at, a.updated_at, "+
				"c.generation, j.external_id, u.external_id, COALESCE(t.name, '"+unknownType+"') "+
				"FROM allocations a JOIN resource_providers p ON p.id = a.resource_provider_id JOIN "+
				"resource_classes k ON k.id = a.resource_class_id "+
				"JOIN consumers c ON c.uuid = a.consumer_id JOIN projects j ON j.id = c.project_id JOIN users u ON "+
				"u.id = c.user_id "+
				"LEFT JOIN consumer_types t ON t.id = c.consumer_type_id WHERE a.consumer_id = ?", []any{consumer},
			func(rows *sql.Rows) error {
				var id provider.ID
				var generation, used int
				var class resource.Class
				var at timestamps
				err := rows.Scan(&id, &generation, &class, &used, &at.created, &at.updated, &held.Generation,
					&held.Project, &held.User, &held.ConsumerType)
				if held.Allocation[id] == nil {
					held.Allocation[id] = resource.Amounts{}
				}
				held.Allocation[id][class], held.Generations[id] = used, generation
				held.Modified = newer(held.Modified, at.modified())
				return err
			})
	})
	return held, err
}

func newer(a, b time.Time) time.Time {
	if b.After(a) {
		return b
	}
	return a
}

// TreeAllocations reads the allocations on a root provider, or on all providers of its tree, by provider: the amounts
// without what the records of consumers have. Providers without allocations are left out. It returns NotFound for a
// provider that does not exist.
func (s *Store) TreeAllocations(ctx context.Context, root provider.ID, whole bool) (
	all map[provider.ID]map[resource.ConsumerID]resource.Amounts, err error) {
	where := "p.id = ?"
	if whole {
		where = "p.root_provider_id = ?"
	}
	err = s.read(ctx, "TreeAllocations", func(tx *sqldb.Tx) error {
		r, err := findProvider(ctx, tx, root)
		if err != nil {
			return err
		}
		all = map[provider.ID]map[resource.ConsumerID]resource.Amounts{}
		return sqldb.QueryEach(ctx, tx, "SELECT p.uuid, a.consumer_id, k.name, a.used FROM resource_providers p "+
			"JOIN allocations a ON a.resource_provider_id = p.id JOIN resource_classes k ON k.id = a.resource_class_id "+
			"WHERE "+where, []any{r.id},
			func(rows *sql.Rows) error {
				var id provider.ID
				var consumer resource.ConsumerID
				var class resource.Class
				var used int
				err := rows.Scan(&id, &consumer, &class, &used)
				if all[id] == nil {
					all[id] = map[resource.ConsumerID]resource.Amounts{}
				}
				if all[id][consumer] == nil {
					all[id][consumer] = resource.Amounts{}
				}
				all[id][consumer][class] = used
				return err
			})
	})
	return all, err
}

// selectInOrder returns SELECT for a query that begins with the first of its tables and continues with each in turn.
// With statistics from before many writes, MariaDB otherwise begins with a table that has few rows, such as that of the
// projects, and reads the allocations of all its consumers. MySQL has the same word.
func selectInOrder(dialect sqldb.Dialect) string {
	if dialect == sqldb.MySQL {
		return "SELECT STRAIGHT_JOIN"
	}
	return "SELECT"
}

// ProviderAllocations reads the allocations on a provider. It returns NotFound if there is no such provider.
func (s *Store) ProviderAllocations(ctx context.Context, id provider.ID) (all ProviderAllocations, err error) {
	err = s.read(ctx, "ProviderAllocations", func(tx *sqldb.Tx) error {
		p, err := findProvider(ctx, tx, id)
		if err != nil {
			return err
		}
		all = ProviderAllocations{Generation: p.Generation, Shares: map[resource.ConsumerID]ProviderShare{}}
		return sqldb.QueryEach(ctx, tx,
			selectInOrder(tx.Dialect)+" a.consumer_id, k.name, a.used, a.created_at, a.updated_at, c.generation, "+
				"j.external_id, u.external_id "+
				"FROM allocations a JOIN resource_classes k ON k.id = a.resource_class_id JOIN consumers c ON "+
				"c.uuid = a.consumer_id "+
				"JOIN projects j ON j.id = c.project_id JOIN users u ON u.id = c.user_id WHERE "+
				"a.resource_provider_id = ?", []any{p.id}, func(rows *sql.Rows) error {
				var consumer resource.ConsumerID
				var share ProviderShare
				var class resource.Class
				var used int
				var at timestamps
				err := rows.Scan(&consumer, &class, &used, &at.created, &at.updated, &share.Generation, &share.Project,
					&share.User)
				if share.Amounts = all.Shares[consumer].Amounts; share.Amounts == nil {
					share.Amounts = resource.Amounts{}
				}
				share.Amounts[class] = used
				all.Shares[consumer] = share
				all.Modified = newer(all.Modified, at.modified())
				return err
			})
	})
	return all, err
}
