package app

import (
	"context"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/openberth/berth/fault"
	"github.com/openberth/berth/internal/settings"
	"github.com/openberth/berth/internal/testenv"
)

// An agent that ends leaves no session on the server. A second host with plain names of providers is refused before
// anything of it is written.
func TestAgentEndsItsSessionsAndPlainNamesAreChecked(t *testing.T) {
	testenv.Long(t)
	t.Parallel()
	one := newPowerVM(t)
	one.conf += "plain_provider_names = true\n"
	one.up(one.conf)
	if one.provider("PowerVM IOSlot 1C0FFEE1").ID == "" || one.novalink.Sessions() == 0 {
		t.Fatal("the first host has no plain names, or no session")
	}
	two := newPowerVM(t)
	file := filepath.Join(two.dir, "berth.conf")
	text := two.conf + "plain_provider_names = true\n[DEFAULT]\nhost = cmp2\n[oslo_concurrency]\nlock_path = " + two.dir +
		"\n[api]\nauth_strategy = noauth2\n"
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	log := slog.New(slog.NewTextHandler(t.Output(), nil))
	config, err := settings.Read(log, file)
	config.Times = settings.TestTimes()
	config.RequestTime = testenv.Patience
	if err != nil {
		t.Fatal(err)
	}
	agent, err := NewAgent(config, two.dir, one.cloud.endpoints(), log)
	if err != nil {
		t.Fatal(err)
	}
	err = agent.Run(context.Background())
	if !fault.Is(err, fault.Invalid) || !strings.Contains(err.Error(), "plain_provider_names is for one host") {
		t.Errorf("the second host: %v", err)
	}
	if _, err := one.cloud.PlacementClient().ProviderByName(t.Context(), "cmp2"); !fault.Is(err, fault.NotFound) {
		t.Errorf("something of the second host is in Placement: %v", err)
	}
	one.down()
	if one.novalink.Sessions() != 0 || two.novalink.Sessions() != 0 {
		t.Errorf("%d and %d sessions are left", one.novalink.Sessions(), two.novalink.Sessions())
	}
}
