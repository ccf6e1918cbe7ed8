package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/openberth/berth/api/compute"
	"github.com/openberth/berth/internal/testenv"
)

// upOnBoot starts a cloud with berth up in a process namespace of its own, with this boot id, as after a reboot or the
// restart of a container. The locks of an earlier boot are gone.
func upOnBoot(t *testing.T, dir, boot string) *daemon {
	t.Helper()
	id := filepath.Join(t.TempDir(), "boot_id")
	must(t, os.WriteFile(id, []byte(boot+"\n"), 0o600))
	conf := filepath.Join(t.TempDir(), "berth.conf")
	text := fmt.Sprintf("[DEFAULT]\nhost = cmp1\ncompute_driver = fake.FakeDriver\n[api]\nauth_strategy = noauth2\n"+
		"[oslo_concurrency]\nlock_path = %s\n[berth]\nsysfs = %s\n", t.TempDir(), bus81(t))
	must(t, os.WriteFile(conf, []byte(text), 0o600))
	args := []string{"--mount", "--propagation", "private", "--pid", "--fork", "--kill-child", "--mount-proc", "sh", "-c",
		`mount --bind "$1" /proc/sys/kernel/random/boot_id && shift && exec "$@"`, "sh", id, program(t), "up",
		"--config-file", conf, "--data-dir", dir, "--listen-placement", "127.0.0.1:0", "--listen-compute", "127.0.0.1:0",
		"--listen-network", "127.0.0.1:0", "--listen-image", "127.0.0.1:0"}
	cmd := exec.Command("unshare", args...)
	cmd.Env = berth(t).Env
	return startCommand(t, []string{"placement", "compute", "network"}, cmd)
}

// A cloud that was killed, also by the end of its machine, starts at once on the next boot: neither compute nor the
// agent waits for its predecessor, because the lock of the data directory shows that it has ended.
func TestUpAfterAnotherBoot(t *testing.T) {
	testenv.Need(t, "unshare")
	t.Parallel()
	dir, ids := t.TempDir(), []string{}
	for _, boot := range []string{"11111111-1111-4111-8111-111111111111", "22222222-2222-4222-8222-222222222222"} {
		d := upOnBoot(t, dir, boot)
		c := d.compute()
		flavor, err := c.CreateFlavor(t.Context(), compute.CreateFlavor{Name: "f" + boot[:1], VCPUs: 1, RAM: 64})
		must(t, err)
		made, err := c.CreateServer(t.Context(), compute.CreateServer{Name: "s" + boot[:1], Flavor: flavor.ID})
		must(t, err)
		for _, id := range append(ids, made.ID) {
			testenv.Until(t, "server "+id+" is ACTIVE", func() (bool, error) {
				s, err := c.Server(t.Context(), id)
				return s.Status == "ACTIVE", fmt.Errorf("%s %+v %v", s.Status, s.Fault, err)
			})
		}
		ids = append(ids, made.ID)
		d.kill()
		for _, waits := range []string{"not released by its last process", "waiting for the previous start", "not admitted",
			"has not reported yet"} {
			if strings.Contains(d.log.String(), waits) {
				t.Errorf("on boot %s a service waits: %q\n%s", boot, waits, d.log)
			}
		}
	}
}
