package store_test

import (
	"context"
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"github.com/openberth/berth/internal/databases"
	"github.com/openberth/berth/network/store"
	"github.com/openberth/berth/sqldb"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var update = flag.Bool("update", false, "write the golden files")

// fill sets every field of a record to a value that is not empty.
func fill(v reflect.Value) {
	switch v.Kind() {
	case reflect.String:
		v.SetString("text")
	case reflect.Bool:
		v.SetBool(true)
	case reflect.Int, reflect.Int64:
		v.SetInt(1)
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		fill(v.Elem())
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 1, 1))
		fill(v.Index(0))
	case reflect.Map:
		value := reflect.New(v.Type().Elem()).Elem()
		fill(value)
		v.Set(reflect.MakeMap(v.Type()))
		v.SetMapIndex(reflect.ValueOf("key"), value)
	case reflect.Interface:
		v.Set(reflect.ValueOf("any"))
	case reflect.Struct:
		for i := range v.NumField() {
			fill(v.Field(i))
		}
	}
}

// TestRecords compares a filled record of each kind with its golden file, and reads the file back from the database.
func TestRecords(t *testing.T) {
	db, err := sqldb.Open(t.Context(), databases.SQLite(t))
	must(t, err)
	t.Cleanup(func() { must(t, db.Close()) })
	st, err := store.Open(t.Context(), db)
	must(t, err)
	golden[store.Network](t, st, db, "network_networks")
	golden[store.Subnet](t, st, db, "network_subnets")
	golden[store.Port](t, st, db, "network_ports")
	golden[store.Policy](t, st, db, "network_policies")
	golden[store.Agent](t, st, db, "network_agents")
	golden[store.Quota](t, st, db, "network_quotas")
	golden[store.Change](t, st, db, "network_changes")
	golden[store.Event](t, st, db, "network_events")
	golden[store.RBACPolicy](t, st, db, "network_rbac_policies")
	golden[store.SubnetPool](t, st, db, "network_subnet_pools")
	golden[store.SecurityGroup](t, st, db, "network_security_groups")
	golden[store.SecurityGroupRule](t, st, db, "network_security_group_rules")
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func golden[T any, P store.Pointer[T]](t *testing.T, st *store.Store, db *sqldb.DB, table string) {
	t.Helper()
	ctx := t.Context()
	var object T
	fill(reflect.ValueOf(&object).Elem())
	text, err := json.MarshalIndent(object, "", "  ")
	must(t, err)
	file := filepath.Join("testdata", table+".json")
	if *update {
		must(t, os.WriteFile(file, append(text, '\n'), 0o600))
	}
	want, err := os.ReadFile(file)
	must(t, err)
	if strings.TrimSpace(string(want)) != string(text) {
		t.Errorf("%s: the format of a record has changed: change the golden file; after a release, add a migration too\n%s",
			file, text)
	}
	must(t, st.Write(ctx, func(tx *store.Tx) error { return store.Put[T, P](ctx, tx, &object) }))
	must(t, setRecord(ctx, db, table, string(want)))
	must(t, st.Read(ctx, func(tx *store.Tx) error {
		got, found, err := store.Get[T, P](ctx, tx, "text")
		if err == nil && (!found || !reflect.DeepEqual(got, object)) {
			t.Errorf("%s: read %+v, want %+v", table, got, object)
		}
		return err
	}))
	read := func(record string) error {
		must(t, setRecord(ctx, db, table, record))
		return st.Read(ctx, func(tx *store.Tx) error {
			_, _, err := store.Get[T, P](ctx, tx, "text")
			return err
		})
	}
	for _, more := range []string{`{"version": 3,`, `{"future": 1,`} {
		if read(strings.Replace(string(want), "{", more, 1)) == nil {
			t.Errorf("%s: a record with %s is read", table, more)
		}
	}
}

// setRecord replaces the record with the ID text.
func setRecord(ctx context.Context, db *sqldb.DB, table, record string) error {
	return db.Write(ctx, func(tx *sqldb.Tx) error {
		_, err := tx.Exec(ctx, "UPDATE "+table+" SET record = ? WHERE id = 'text'", record)
		return err
	})
}
