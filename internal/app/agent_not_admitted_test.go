package app

import (
	"context"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/openberth/berth/compute/store/lease"
	"github.com/openberth/berth/internal/testenv"
)

// An agent that lost its journal is another agent. It is admitted when the host has been silent for service_down_time;
// until then the services answer, and nothing ends.
func TestServicesAnswerBeforeAgentIsAdmitted(t *testing.T) {
	testenv.Long(t)
	t.Parallel()
	l := newLab(t)
	l.up("[DEFAULT]\nservice_down_time = 15\n")
	old := l.boot("old", "ACTIVE", nil)
	l.down()
	if err := os.RemoveAll(filepath.Join(l.dir, AgentDir, "journal")); err != nil {
		t.Fatal(err)
	}
	var log testenv.Buffer
	var err error
	logger := slog.New(slog.NewTextHandler(&log, nil))
	if l.cloud, err = OpenCloud(t.Context(), l.cloud.Settings, l.dir, logger); err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	reported := make(chan struct{})
	var agent sync.WaitGroup
	agent.Go(func() {
		if err := l.cloud.KeepAgent(ctx, func() { close(reported) }); err != nil {
			t.Error(err)
		}
	})
	if s, err := l.compute().Server(t.Context(), old.ID); err != nil || s.Name != "old" {
		t.Errorf("compute answers %+v, %v", s, err)
	}
	<-reported
	stop()
	agent.Wait()
	l.down()
	if !strings.Contains(log.String(), "agent not admitted, will retry") {
		t.Errorf("the other agent was admitted at once:\n%s", log.String())
	}
}

// Who has locked the state of compute knows that an earlier process with the same lock has ended, whatever its boot or
// container was.
func TestLockShowsThatProcessHasEnded(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	lock, err := Lock(dir, ComputeLock)
	if err != nil {
		t.Fatal(err)
	}
	before := thisProcess()
	before.BootID = "another boot"
	ended := func(h lease.Owner) bool { return hasEnded(h) && !isRunning(h) }
	if !ended(before) {
		t.Errorf("%+v counts as running", before)
	}
	elsewhere := before
	elsewhere.LockID = "another directory"
	if ended(elsewhere) {
		t.Errorf("%+v counts as ended", elsewhere)
	}
	if err := lock.Close(); err != nil {
		t.Fatal(err)
	}
	if ended(before) {
		t.Errorf("%+v counts as ended, and this process has no lock", before)
	}
}
