package bench

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/openberth/berth/sqldb"
)

// fleet writes hosts directly into a database that has the schema, because writing them over the API would take
// longer than the measurements. Each host is a root with 50 traits in one of 20 aggregates, 8 GPUs, and 2 network
// cards with 8 functions each; every device is a provider: 27 in all. One consumer on each host holds a part of it.
type fleet struct {
	ctx     context.Context
	tx      *sqldb.Tx
	classes map[string]int64
	traits  map[string]int64
	common  []int64 // traits of every root

	providers, inventories, providerTraits, memberships, consumers, allocations rows
	next                                                                        int64 // number of the next provider
}

// rows are rows that are not yet written into a table.
type rows struct {
	insert string
	width  int
	values []any
}

const moment = "2026-01-01 00:00:00.000000"

// add adds a row. When there are many, it writes those of all tables, because they refer to each other.
func (r *rows) add(f *fleet, values ...any) error {
	r.width = len(values)
	r.values = append(r.values, values...)
	if len(r.values) < 900 {
		return nil
	}
	return f.flush()
}

// flush writes the rows.
func (r *rows) flush(f *fleet) error {
	if len(r.values) == 0 {
		return nil
	}
	one := "(" + strings.TrimSuffix(strings.Repeat("?,", r.width), ",") + "),"
	_, err := f.tx.Exec(f.ctx, r.insert+" VALUES "+strings.TrimSuffix(strings.Repeat(one, len(r.values)/r.width), ","),
		r.values...)
	r.values = r.values[:0]
	return err
}

// loadFleet writes a fleet into a database that has statistics of it afterwards, as one in use has, and returns the IDs
// of the hosts.
func loadFleet(ctx context.Context, database string, hosts int) (roots []string, err error) {
	if roots, err = writeFleet(ctx, database, hosts); err == nil {
		err = refreshStatistics(ctx, database)
	}
	return roots, err
}

// refreshStatistics lets a database count what its tables have. MariaDB and PostgreSQL do it by themselves some time
// after many writes, but not always after one large transaction.
func refreshStatistics(ctx context.Context, database string) error {
	db, err := sqldb.Open(ctx, database)
	if err != nil {
		return err
	}
	defer db.Close()
	if db.Dialect == sqldb.SQLite {
		return nil
	}
	return db.Write(ctx, func(tx *sqldb.Tx) error {
		for _, table := range []string{"allocations", "consumers", "inventories", "resource_provider_aggregates",
			"resource_provider_traits", "resource_providers"} {
			statement := "ANALYZE " + table
			if tx.Dialect == sqldb.MySQL {
				statement = "ANALYZE TABLE " + table
			}
			if _, err := tx.Exec(ctx, statement); err != nil {
				return err
			}
		}
		return nil
	})
}

// writeFleet writes a fleet and returns the IDs of the hosts.
func writeFleet(ctx context.Context, database string, hosts int) (roots []string, err error) {
	db, err := sqldb.Open(ctx, database)
	if err != nil {
		return nil, err
	}
	defer db.Close()
	err = db.Write(ctx, func(tx *sqldb.Tx) error {
		roots = roots[:0]
		f := &fleet{ctx: ctx, tx: tx, next: 1}
		if err := f.begin(); err != nil {
			return err
		}
		for n := range hosts {
			root, err := f.host(n)
			if err != nil {
				return err
			}
			roots = append(roots, root)
		}
		return f.flush()
	})
	return roots, err
}

const aggregates = 20

func aggregate(n int) string { return fmt.Sprintf("a0000000-0000-4000-8000-%012d", n%aggregates) }

// flush writes the rows that are not yet written.
func (f *fleet) flush() error {
	for _, r := range []*rows{&f.providers, &f.inventories, &f.providerTraits, &f.memberships, &f.consumers,
		&f.allocations} {
		if err := r.flush(f); err != nil {
			return err
		}
	}
	return nil
}

// begin writes traits, aggregates, project and user, and reads the numbers of classes and traits.
func (f *fleet) begin() (err error) {
	f.providers.insert = "INSERT INTO resource_providers (created_at, id, uuid, name, generation, root_provider_id, " +
		"parent_provider_id)"
	f.inventories.insert = "INSERT INTO inventories (created_at, resource_provider_id, resource_class_id, total, " +
		"reserved, " +
		"min_unit, max_unit, step_size, allocation_ratio)"
	f.providerTraits.insert = "INSERT INTO resource_provider_traits (created_at, trait_id, resource_provider_id)"
	f.memberships.insert = "INSERT INTO resource_provider_aggregates (created_at, resource_provider_id, aggregate_id)"
	f.consumers.insert = "INSERT INTO consumers (created_at, updated_at, uuid, project_id, user_id, generation)"
	f.allocations.insert = "INSERT INTO allocations (created_at, resource_provider_id, consumer_id, " +
		"resource_class_id, used)"
	for _, trait := range []string{physnet + "_0", physnet + "_1", red, blue} {
		if _, err := f.tx.Exec(f.ctx, "INSERT INTO traits (created_at, name) VALUES (?, ?)", moment, trait); err != nil {
			return err
		}
	}
	for n := range aggregates {
		if _, err := f.tx.Exec(f.ctx, "INSERT INTO placement_aggregates (created_at, id, uuid) VALUES (?, ?, ?)", moment, n+1,
			aggregate(n)); err != nil {
			return err
		}
	}
	for _, table := range []string{"projects", "users"} {
		if _, err := f.tx.Exec(f.ctx, "INSERT INTO "+table+" (created_at, id, external_id) VALUES (?, 1, 'fleet')",
			moment); err != nil {
			return err
		}
	}
	if f.classes, err = f.numbers("SELECT name, id FROM resource_classes"); err != nil {
		return err
	}
	if f.traits, err = f.numbers("SELECT name, id FROM traits"); err != nil {
		return err
	}
	common, err := f.numbers("SELECT name, id FROM traits WHERE name LIKE 'HW_CPU_X86_%' OR name LIKE 'COMPUTE_%' ORDER " +
		"BY name LIMIT 50")
	for _, id := range common {
		f.common = append(f.common, id)
	}
	if err == nil && len(common) != 50 {
		err = fmt.Errorf("the database has %d of 50 standard traits", len(common))
	}
	return err
}

// numbers returns the numbers of names.
func (f *fleet) numbers(query string) (map[string]int64, error) {
	found := map[string]int64{}
	list, err := f.tx.Query(f.ctx, query)
	if err != nil {
		return nil, err
	}
	defer list.Close()
	for list.Next() {
		var name string
		var id int64
		if err := list.Scan(&name, &id); err != nil {
			return nil, err
		}
		found[name] = id
	}
	return found, list.Err()
}

// host writes one host. Of its GPUs n%9 are in use, and n%17 of its functions.
func (f *fleet) host(n int) (root string, err error) {
	id := f.next
	consumer := uuid.NewString()
	if root, err = f.provider(fmt.Sprintf("cmp-%05d", n), id, nil, consumer, map[string]int{"VCPU": 128,
		"MEMORY_MB": 1 << 20, "DISK_GB": 8000}, n%9*8, f.common...); err != nil {
		return root, err
	}
	if err := f.memberships.add(f, moment, id, n%aggregates+1); err != nil {
		return root, err
	}
	if err := f.consumers.add(f, moment, moment, consumer, 1, 1, 1); err != nil {
		return root, err
	}
	for i := range 8 {
		colour := f.traits[[]string{red, blue}[i%2]]
		if _, err := f.provider(fmt.Sprintf("cmp-%05d_gpu%d", n, i), id, id, consumer, map[string]int{"PGPU": 1},
			amount(i < n%9), colour); err != nil {
			return root, err
		}
	}
	for card := range 2 {
		net := f.traits[fmt.Sprint(physnet, "_", card)]
		parent := f.next
		if _, err := f.provider(fmt.Sprintf("cmp-%05d_pf%d", n, card), id, id, consumer,
			map[string]int{"NET_BW_EGR_KILOBIT_PER_SEC": 100_000_000}, 0, net); err != nil {
			return root, err
		}
		for i := range 8 {
			if _, err := f.provider(fmt.Sprintf("cmp-%05d_pf%d_vf%d", n, card, i), id, parent, consumer,
				map[string]int{"SRIOV_NET_VF": 1}, amount(card*8+i < n%17), net); err != nil {
				return root, err
			}
		}
	}
	return root, nil
}

// amount returns 1 for a device in use.
func amount(inUse bool) int {
	if inUse {
		return 1
	}
	return 0
}

// provider writes one provider; used is the usage of each of its classes.
func (f *fleet) provider(name string, root int64, parent any, consumer string, inventories map[string]int, used int,
	traits ...int64) (string, error) {
	id := uuid.NewString()
	return id, f.providerAs(id, name, root, parent, consumer, inventories, used, traits...)
}

// providerAs is provider for one with this id.
func (f *fleet) providerAs(id, name string, root int64, parent any, consumer string, inventories map[string]int,
	used int, traits ...int64) error {
	number := f.next
	f.next++
	if err := f.providers.add(f, moment, number, id, name, 2, root, parent); err != nil {
		return err
	}
	for class, total := range inventories {
		if err := f.inventories.add(f, moment, number, f.classes[class], total, 0, 1, total, 1, 1.0); err != nil {
			return err
		}
		if used > 0 {
			if err := f.allocations.add(f, moment, number, consumer, f.classes[class], used); err != nil {
				return err
			}
		}
	}
	for _, trait := range traits {
		if err := f.providerTraits.add(f, moment, trait, number); err != nil {
			return err
		}
	}
	return nil
}

// fleetQuestions returns the queries for a fleet, in turn, with a limit of 1000 candidates: servers without devices,
// with GPUs, with functions, with both; some that only few hosts can serve, and some that none can.
func fleetQuestions(roots []string) func(n int) string {
	server := func(n int) string {
		return fmt.Sprintf("/allocation_candidates?resources=VCPU:%d,MEMORY_MB:%d,DISK_GB:%d", 1+n%16, 1024+n%4096, 10+n%50)
	}
	gpus := func(k int) string {
		var b strings.Builder
		for i := range k {
			fmt.Fprintf(&b, "&resources_G%d=PGPU:1", i)
		}
		return b.String()
	}
	end := "&group_policy=none&limit=1000"
	kinds := []func(n int) string{
		func(n int) string { return server(n) + end },
		func(n int) string { return server(n) + gpus(1) + "&required_G0=" + red + end },
		func(n int) string { return server(n) + gpus(4) + end },
		func(n int) string { return server(n) + gpus(8) + end },
		func(n int) string { return server(n) + gpus(9) + end },
		func(n int) string {
			return server(n) + "&resources_A=SRIOV_NET_VF:1&required_A=" + physnet +
				"_0&resources_B=SRIOV_NET_VF:1&required_B=" + physnet + "_1" + end
		},
		func(n int) string {
			return server(n) + fmt.Sprintf(
				"&resources_VF=SRIOV_NET_VF:1&resources_BW=NET_BW_EGR_KILOBIT_PER_SEC:%d&required_BW=%s_1&same_subtree=_VF,_BW",
				1000+n%100000, physnet) + end
		},
		func(n int) string { return server(n) + gpus(2) + "&member_of=" + aggregate(n) + end },
		func(n int) string { return server(n) + gpus(2) + "&in_tree=" + roots[(n+1)%len(roots)] + end },
		func(n int) string { return server(n) + gpus(1) + "&required_G0=" + red + "," + blue + end },
	}
	return func(n int) string { return kinds[n%len(kinds)](n) }
}

// fleetAnswers are the numbers of candidates of the first queries in a fleet of 10,000 hosts.
var fleetAnswers = []int{1000, 1000, 1000, 1000, 0, 1000, 1000, 1000, 8 * 7, 0}

// fleetClaims returns work that claims a little of one host after the other and releases it: the load beside the
// queries.
func fleetClaims(roots []string, rest time.Duration) func(c *Conn, n int) error {
	return func(c *Conn, n int) error {
		consumer := "/allocations/" + uuid.NewString()
		body := fmt.Appendf(nil,
			`{"allocations":{%q:{"resources":{"VCPU":%d}}},"project_id":"bench","user_id":"bench",`+
				`"consumer_generation":null,"consumer_type":"INSTANCE"}`,
			roots[n*7919%len(roots)], 1+n%4)
		if _, err := c.Want(204, "PUT", consumer, body); err != nil {
			return err
		}
		time.Sleep(rest)
		_, err := c.Want(204, "DELETE", consumer, nil)
		return err
	}
}
