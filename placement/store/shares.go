package store

import (
	"context"
	"database/sql"

	"github.com/openberth/berth/provider"
	"github.com/openberth/berth/resource"
	"github.com/openberth/berth/sqldb"
)

// Share is what one consumer has of one provider.
type Share struct {
	Root         provider.ID // of the provider's tree
	Provider     provider.ID
	Consumer     resource.ConsumerID
	Amounts      resource.Amounts
	Project      string
	User         string
	ConsumerType string // "unknown" when it has none
}

// Shares reads all allocations in the trees with these roots in one snapshot.
func (s *Store) Shares(ctx context.Context, roots ...provider.ID) (list []Share, err error) {
	err = s.read(ctx, "Shares", func(tx *sqldb.Tx) error {
		list = nil
		at := map[[2]string]int{}
		return sqldb.QueryIn(ctx, tx, "SELECT r.uuid, p.uuid, a.consumer_id, k.name, a.used, j.external_id, u.external_id, "+
			"COALESCE(t.name, '"+unknownType+"') FROM resource_providers r JOIN resource_providers p ON "+
			"p.root_provider_id = r.id JOIN allocations a ON a.resource_provider_id = p.id "+
			"JOIN resource_classes k ON k.id = a.resource_class_id JOIN consumers c ON c.uuid = a.consumer_id "+
			"JOIN projects j ON j.id = c.project_id JOIN users u ON u.id = c.user_id "+
			"LEFT JOIN consumer_types t ON t.id = c.consumer_type_id WHERE r.uuid IN (%)", roots,
			func(rows *sql.Rows) error {
				var one Share
				var class resource.Class
				var used int
				err := rows.Scan(&one.Root, &one.Provider, &one.Consumer, &class, &used, &one.Project, &one.User,
					&one.ConsumerType)
				key := [2]string{string(one.Provider), string(one.Consumer)}
				i, known := at[key]
				if !known {
					i = len(list)
					at[key] = i
					one.Amounts = resource.Amounts{}
					list = append(list, one)
				}
				list[i].Amounts[class] = used
				return err
			})
	})
	return list, err
}
