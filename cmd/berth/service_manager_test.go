package main

import (
	"net"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/openberth/berth/internal/testenv"
)

// Each service, `berth up` and the agent send systemd READY=1 after the start, WATCHDOG=1 while they work, and
// STOPPING=1.
func TestServiceManagerGetsMessages(t *testing.T) {
	t.Parallel()
	listen := []string{"--listen", "127.0.0.1:0"}
	for name, args := range map[string][]string{
		"placement": append([]string{"placement"}, listen...),
		"compute":   append([]string{"compute"}, listen...),
		"network":   append([]string{"network"}, listen...),
		"image":     append([]string{"image"}, listen...),
		"agent":     {"agent"},
		"up": {"up", "--listen-placement", "127.0.0.1:0", "--listen-compute", "127.0.0.1:0", "--listen-network",
			"127.0.0.1:0", "--listen-image", "127.0.0.1:0"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir, config := t.TempDir(), conf(t, machine(t, 1, 1)) // of its own: one agent at a time serves a host
			socket := filepath.Join(dir, "notify")
			conn, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: socket, Net: "unixgram"})
			if err != nil {
				t.Fatal(err)
			}
			defer conn.Close()
			cmd := berth(t, append(args, "--config-file", config, "--data-dir", dir)...)
			log := &testenv.Buffer{}
			cmd.Stderr = log
			cmd.Env = append(cmd.Env, "NOTIFY_SOCKET="+socket, "WATCHDOG_USEC=200000")
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = cmd.Process.Kill() }) // it may have ended
			want := []string{"READY=1", "WATCHDOG=1", "WATCHDOG=1"}
			for text := make([]byte, 100); ; {
				if err := conn.SetReadDeadline(time.Now().Add(testenv.Patience)); err != nil {
					t.Fatal(err)
				}
				n, err := conn.Read(text)
				if err != nil {
					t.Fatalf("no %v: %v\n%s", want, err, log)
				}
				got := string(text[:n])
				if len(want) == 0 {
					if got == "STOPPING=1" {
						break
					}
				} else if got == want[0] {
					want = want[1:]
				} else {
					t.Fatalf("%q instead of %v", got, want)
				}
				if len(want) == 0 {
					if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
						t.Fatal(err)
					}
				}
			}
			if err := cmd.Wait(); err != nil {
				t.Errorf("%v\n%s", err, log)
			}
		})
	}
}
