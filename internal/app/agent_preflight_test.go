package app

import (
	"bytes"
	"log/slog"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/openberth/berth/fault"
	"github.com/openberth/berth/pci"
)

// Everything that prevents a host from reporting is returned in one fault, each with its place, and nothing is changed.
func TestPreflightReturnsAllProblems(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	l.up(`
[pci]
device_spec = {"vendor_id": "1b36", "product_id": "0010"}
`)
	defer l.down()
	s, log := l.cloud.Settings, slog.New(slog.DiscardHandler)
	eth7, err := pci.ParseSpecs(`{"devname": "eth7"}`)
	if err != nil {
		t.Fatal(err)
	}
	s.Rules = append(slices.Clone(s.Rules), eth7...)
	var out bytes.Buffer
	err = PreflightAgent(t.Context(), s, filepath.Join(l.dir, "agent"), l.cloud.endpoints(), log, &out, false)
	text := fault.TextOf(err)
	for _, word := range []string{"3 things are in the way:\n", `devname "eth7"`, "the PF 0000:11:00.0",
		"the PF 0000:21:00.0"} {
		if !fault.Is(err, fault.Invalid) || !strings.Contains(text, word) {
			t.Errorf("without %q: %v", word, err)
		}
	}
	if strings.Count(text, "\n") != 3 || out.Len() > 0 {
		t.Errorf("each on a line of its own: %s\n%s", text, &out)
	}
	if tree, err := l.cloud.PlacementClient().ProviderByName(t.Context(), "cmp1"); err != nil || tree.ID == "" {
		t.Errorf("%+v %v", tree, err)
	}
}
