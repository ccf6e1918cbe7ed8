package store_test

import (
	"os"
	"path/filepath"
	"reflect"
	"testing"

	"github.com/openberth/berth/compute/lifecycle"
	"github.com/openberth/berth/sqldb"
)

// TestFullServerOfVersion1IsRead checks that a record of version 1 is read as the server that was stored.
func TestFullServerOfVersion1IsRead(t *testing.T) {
	url := "sqlite:///" + filepath.Join(t.TempDir(), "compute.db")
	s := open(t, url)
	must(t, s.Create(t.Context(), fullServer()))
	record, err := os.ReadFile("testdata/records-v1/server-filled-by-hand.json")
	must(t, err)
	db, err := sqldb.Open(t.Context(), url)
	must(t, err)
	defer db.Close()
	must(t, db.Write(t.Context(), func(tx *sqldb.Tx) error {
		_, err := tx.Exec(t.Context(), `UPDATE compute_servers SET record = ? WHERE id = 'full'`, string(record))
		return err
	}))
	got, err := s.Read(t.Context(), "full")
	must(t, err)
	want := fullServer()
	want.Networks, want.Ports, want.PortChange, want.PortsRefused = nil, nil, nil, ""
	want.DeletedPorts = nil
	want.PublicKey, want.UserData, want.PreRebuild.FirstBoot = "", "", nil
	// The record was made up: no server is active while it moves.
	want.Move.Phase = lifecycle.MovePhase(lifecycle.Active)
	if !reflect.DeepEqual(got, want) {
		t.Errorf("the record is read as\n%+v\nwant\n%+v", got, want)
	}
}
