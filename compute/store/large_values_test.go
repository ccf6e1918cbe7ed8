package store_test

import (
	"reflect"
	"strings"
	"testing"

	"github.com/openberth/berth/compute/flavor"
	"github.com/openberth/berth/compute/lifecycle"
	"github.com/openberth/berth/compute/store"
	"github.com/openberth/berth/resource"
)

// longTexts tests texts of the greatest length that the API permits, in letters of several bytes.
func longTexts(t *testing.T, s *store.Store) {
	ctx := t.Context()
	f := flavor.Flavor{ID: "f", Name: strings.Repeat("ж", 255), Description: strings.Repeat("語", 65535), VCPUs: 1,
		MemoryMB: 1, ExtraSpecs: map[string]string{"k": strings.Repeat("語", 255)}}
	must(t, s.CreateFlavor(ctx, f))
	if got, err := s.Flavor(ctx, "f"); err != nil || !reflect.DeepEqual(got, f) {
		t.Errorf("%.200v %v", got, err)
	}
	k := store.KeyPair{User: "u", Name: "k", Type: "ssh", PublicKey: strings.Repeat("語", 16384), Created: noon}
	_, err := s.CreateKeyPair(ctx, k, -1)
	must(t, err)
}

// largeNumbers tests what does not fit into the 32 bits of an INTEGER of PostgreSQL and MariaDB.
func largeNumbers(t *testing.T, s *store.Store) {
	ctx := t.Context()
	f := flavor.Flavor{ID: "f", Name: "f", VCPUs: 1, MemoryMB: 1, DiskGB: resource.MaxAmount,
		Ephemeral: resource.MaxAmount, Public: true}
	must(t, s.CreateFlavor(ctx, f))
	for _, filter := range []store.FlavorFilter{{MinDisk: 1 << 40}, {MinRAM: 1 << 40}} {
		if list, err := s.Flavors(ctx, filter); err != nil || len(list) != 0 {
			t.Errorf("%+v: %v %v", filter, list, err)
		}
	}
	list, err := s.Flavors(ctx, store.FlavorFilter{MinDisk: -1 << 40, MinRAM: -1 << 40})
	if err != nil || len(list) != 1 {
		t.Errorf("%v %v", list, err)
	}
	must(t, s.Create(ctx, lifecycle.Server{ID: "s", State: lifecycle.Preparing, Flavor: f, Created: noon, Updated: noon,
		Launched: noon}))
	used, err := s.UsedServers(ctx, store.UsageFilter{From: noon, To: noon})
	if err != nil || len(used) != 1 || used[0].DiskGB != 2*resource.MaxAmount {
		t.Errorf("%+v %v", used, err)
	}
}
