package store

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/openberth/berth/fault"
	"github.com/openberth/berth/internal/testenv"
	"github.com/openberth/berth/provider"
	"github.com/openberth/berth/resource"
	"github.com/openberth/berth/sqldb"
)

func sqliteURL(t *testing.T) string {
	return "sqlite:///" + filepath.Join(testenv.MemoryDir(t), "placement.db")
}

// original returns a SQLite database with data written by OpenStack Placement.
func original(t *testing.T) *sqldb.DB {
	t.Helper()
	db := openDB(t, sqliteURL(t))
	script := must(os.ReadFile("testdata/openstack_database.sql"))
	ok(t, db.Write(t.Context(), func(tx *sqldb.Tx) error {
		for statement := range strings.SplitSeq(string(script), ";\n") {
			if strings.TrimSpace(statement) == "" {
				continue
			}
			if _, err := tx.Exec(t.Context(), statement); err != nil {
				return fmt.Errorf("%s: %w", statement, err)
			}
		}
		return nil
	}))
	return db
}

// schemaOf returns the normalised statements in sqlite_master, sorted.
func schemaOf(t *testing.T, db *sqldb.DB) (list []string) {
	t.Helper()
	spaces := regexp.MustCompile(`\s+`)
	ok(t, db.Read(t.Context(), func(tx *sqldb.Tx) error {
		rows, err := tx.Query(t.Context(), "SELECT sql FROM sqlite_master WHERE sql IS NOT NULL")
		if err != nil {
			return err
		}
		for rows.Next() {
			var text string
			if err := rows.Scan(&text); err != nil {
				return err
			}
			text = strings.NewReplacer(`"`, "", "( ", "(", " )", ")").Replace(spaces.ReplaceAllString(text, " "))
			list = append(list, text)
		}
		return rows.Err()
	}))
	slices.Sort(list)
	return list
}

func TestSchemaEqualsTheOriginal(t *testing.T) {
	ours, theirs := schemaOf(t, openStore(t, sqliteURL(t)).db), schemaOf(t, original(t))
	for _, statement := range ours {
		if !slices.Contains(theirs, statement) {
			t.Errorf("not in the original schema: %s", statement)
		}
	}
	for _, statement := range theirs {
		if !slices.Contains(ours, statement) {
			t.Errorf("missing, the original schema has: %s", statement)
		}
	}
	equal(t, "tables and indexes", len(ours), 13+16)
}

// The usage history adds tables of its own, and changes none of the original's.
func TestHistoryAddsOwnTables(t *testing.T) {
	s := openStore(t, sqliteURL(t))
	before := schemaOf(t, s.db)
	ok(t, s.CreateHistory(t.Context()))
	var added []string
	for _, statement := range schemaOf(t, s.db) {
		if !slices.Contains(before, statement) {
			added = append(added, strings.Fields(strings.SplitN(statement, "(", 2)[0])[2])
		}
	}
	equal(t, "added", added, []string{ownSchema, historyTable})
	equal(t, "statements", len(schemaOf(t, s.db)), len(before)+2)
}

// TestDatabaseOfTheOriginal reads and changes a database that OpenStack Placement wrote.
func TestDatabaseOfTheOriginal(t *testing.T) {
	ctx := t.Context()
	s, err := Open(ctx, original(t))
	ok(t, err)
	ok(t, s.Sync(ctx))
	traits, err := s.Traits(ctx, TraitFilter{})
	ok(t, err)
	equal(t, "traits", len(traits), len(resource.StandardTraits())+1)

	equal(t, "rows", allRows(t, s), []Row{
		{
			Provider: provider.Provider{
				ID:          id(1),
				Name:        "host1",
				Root:        id(1),
				Generation:  6,
				Inventories: inventory{"VCPU": resource.Whole(8)},
				Aggregates:  []resource.AggregateID{aggregate(90)},
			},
			Used: resource.Amounts{"VCPU": 2},
		},
		{Provider: provider.Provider{ID: id(2), Name: "host1_pf", Parent: id(1), Root: id(1), Generation: 6,
			Inventories: inventory{
				"CUSTOM_VF": resource.Whole(4),
				"MEMORY_MB": resource.Whole(4096),
			}, Traits: []resource.Trait{"CUSTOM_PHYSNET", "HW_NIC_SRIOV"}},
			Used: resource.Amounts{"CUSTOM_VF": 1, "MEMORY_MB": 512}},
		{
			Provider: provider.Provider{
				ID:          id(3),
				Name:        "share",
				Root:        id(3),
				Generation:  4,
				Inventories: inventory{"DISK_GB": resource.Whole(100)},
				Aggregates:  []resource.AggregateID{aggregate(90)},
			},
			Used: resource.Amounts{"DISK_GB": 10},
		},
	})
	p, err := s.Provider(ctx, id(1))
	ok(t, err)
	equal(t, "modified", p.Modified, time.Date(2026, 11, 20, 19, 0, 17, 906138000, time.UTC))

	held, err := s.ConsumerAllocations(ctx, consumer(50))
	ok(t, err)
	equal(t, "held", []any{held.Generation, held.Project, held.ConsumerType}, []any{2, "proj", "INSTANCE"})
	next := Claim{
		Consumer:     consumer(50),
		Allocation:   resource.Allocation{id(2): {"CUSTOM_VF": 4}},
		Guarded:      true,
		Project:      "proj",
		User:         "user",
		ConsumerType: "INSTANCE",
	}
	ok(t, putOne(ctx, s, next.seen(2)))
	equal(t, "generations", []int{generation(t, s, 1), generation(t, s, 2)}, []int{6, 7})
	equal(t, "used", must(s.ProviderUsages(ctx, id(2))).Used, resource.Amounts{"CUSTOM_VF": 4, "MEMORY_MB": 0})
}

func TestUnknownRevisionIsRefused(t *testing.T) {
	for text, statement := range map[string]string{
		"revision feedfacecafe": "UPDATE alembic_version SET version_num = 'feedfacecafe'",
		"no revision at all":    "DROP TABLE alembic_version",
	} {
		s := openStore(t, sqliteURL(t))
		ok(t,
			s.db.Write(t.Context(), func(tx *sqldb.Tx) error { _, err := tx.Exec(t.Context(), statement); return err }))
		before := schemaOf(t, s.db)
		_, err := Open(t.Context(), s.db)
		refused(t, err, fault.Unavailable, "", text)
		refused(t, s.Sync(t.Context()), fault.Unavailable, "", text)
		equal(t, "schema", schemaOf(t, s.db), before)
	}
	s := openStore(t, sqliteURL(t))
	ok(t, s.db.Write(t.Context(), func(tx *sqldb.Tx) error {
		_, err := tx.Exec(t.Context(), "UPDATE alembic_version SET version_num = ?", revisionNoDouble)
		return err
	}))
	ok(t, s.Sync(t.Context()))
}

// Timestamps have the format of SQLAlchemy, in UTC.
func TestTimestampsEqualTheOriginal(t *testing.T) {
	s := openStore(t, sqliteURL(t))
	s.Now = func() time.Time { return time.Date(2025, 1, 2, 3, 4, 5, 67000999, time.FixedZone("east", 3600)) }
	_, _, err := s.CreateProvider(t.Context(), id(1), "p", "")
	ok(t, err)
	var created, updated string
	ok(t, s.db.Read(t.Context(), func(tx *sqldb.Tx) error {
		return tx.QueryRow(t.Context(), "SELECT created_at || '', updated_at || '' FROM resource_providers").
			Scan(&created, &updated)
	}))
	equal(t, "times", []string{created, updated}, []string{"2025-01-02 02:04:05.067000", "2025-01-02 02:04:05.067000"})
	p, err := s.Provider(t.Context(), id(1))
	ok(t, err)
	equal(t, "modification time", p.Modified, time.Date(2025, 1, 2, 2, 4, 5, 67000000, time.UTC))
}
