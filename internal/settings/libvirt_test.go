package settings

import (
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/openberth/berth/fault"
)

func TestLibvirtSettings(t *testing.T) {
	read := func(text string) (Settings, error) {
		file := filepath.Join(t.TempDir(), "nova.conf")
		if err := os.WriteFile(file, []byte("[berth]\nsysfs = ../../agent/sysfs/sample.txtar\n"+text), 0o600); err != nil {
			t.Fatal(err)
		}
		return Read(slog.New(slog.DiscardHandler), file)
	}
	usual := func(s LibvirtSettings) LibvirtSettings {
		s.ImageCleanup, s.ImageAge = 40*time.Minute, 24*time.Hour
		return s
	}
	const usualInstances = "/var/lib/berth/instances"
	migration := LiveMigration{URI: "qemu+tcp://%s/system", Limit: 800 * time.Second}
	for text, want := range map[string]LibvirtSettings{
		"": usual(LibvirtSettings{Instances: usualInstances, Shutdown: time.Minute}),
		"[image_cache]\nmanager_interval = 60\nremove_unused_original_minimum_age_seconds = 5\n[DEFAULT]\n" +
			"shutdown_timeout = 60\n": {Instances: usualInstances, Shutdown: time.Minute, ImageCleanup: time.Minute,
			ImageAge: 5 * time.Second},
		"[image_cache]\nmanager_interval = 0\n": usual(LibvirtSettings{Instances: usualInstances,
			Shutdown: time.Minute}),
		"[image_cache]\nmanager_interval = -1\n": {Instances: usualInstances, Shutdown: time.Minute,
			ImageAge: 24 * time.Hour},
		"[image_cache]\nremove_unused_base_images = false\n": {Instances: usualInstances, Shutdown: time.Minute,
			ImageAge: 24 * time.Hour},
		"[libvirt]\nconnection_uri = qemu:///system\nvirt_type = qemu\ncpu_models = Nehalem,IvyBridge\n": usual(
			LibvirtSettings{
				VirtType: "qemu", CPUModel: "Nehalem", Instances: usualInstances, Shutdown: time.Minute}),
		"[libvirt]\nconnection_uri = qemu+unix:///system?socket=/tmp/s\n[DEFAULT]\ninstances_path = /srv\n" +
			"shutdown_timeout = 0\n": usual(LibvirtSettings{Socket: "/tmp/s", Instances: "/srv"}),
		"[libvirt]\ndevice_detach_attempts = 2\ndevice_detach_timeout = 5\n": usual(LibvirtSettings{
			Instances: usualInstances, Shutdown: time.Minute, Detaching: Detaching{Attempts: 2, Timeout: 5 * time.Second}}),
		"[libvirt]\nlive_migration_scheme = tls\nlive_migration_completion_timeout = 0\n": usual(LibvirtSettings{
			Instances: usualInstances, Shutdown: time.Minute, Migration: LiveMigration{URI: "qemu+tls://%s/system"}}),
		"[libvirt]\nlive_migration_uri = qemu+tls://%s.example.org:1/system?pkipath=/x\n" +
			"live_migration_inbound_addr = 192.0.2.1\nlive_migration_with_native_tls = true\n" +
			"live_migration_permit_auto_converge = true\nlive_migration_bandwidth = 5\n": usual(LibvirtSettings{
			Instances: usualInstances, Shutdown: time.Minute, Migration: LiveMigration{
				URI: "qemu+tls://%s.example.org:1/system?pkipath=/x", Address: "192.0.2.1", TLS: true, Converge: true,
				Bandwidth: 5, Limit: 800 * time.Second}}),
	} {
		want.VNC, want.ImageCacheMax = true, 10<<30
		if want.Migration == (LiveMigration{}) {
			want.Migration = migration
		}
		if want.Detaching == (Detaching{}) {
			want.Detaching = Detaching{Attempts: 8, Timeout: 20 * time.Second}
		}
		if s, err := read(text); err != nil || s.Libvirt != want {
			t.Errorf("%q: %+v %v", text, s.Libvirt, err)
		}
	}
	for text, says := range map[string]string{
		"[libvirt]\nconnection_uri = qemu+ssh://other/system\n":             "not an address of this machine",
		"[libvirt]\nconnection_uri = qemu:///session\n":                     "not an address of this machine",
		"[libvirt]\nconnection_uri = qemu+unix:///system?socket=relative\n": "not an address of this machine",
		"[image_cache]\nmanager_interval = -2\n":                            "-2",
		"[libvirt]\nvirt_type = lxc\n":                                      "lxc",
		"[DEFAULT]\ninstances_path = guests\n":                              "whole path",
		"[libvirt]\nlive_migration_uri = qemu+ssh://%s/system\n":            "qemu+tls://HOST/system",
		"[libvirt]\nlive_migration_uri = qemu+tls://%s/session\n":           "path",
		"[libvirt]\nlive_migration_scheme = ssh\n":                          "ssh",
		"[libvirt]\nlive_migration_inbound_addr = a/b\n":                    "not an address",
		"[libvirt]\nlive_migration_bandwidth = -1\n":                        "-1",
		"[libvirt]\ndevice_detach_attempts = 0\n":                           "device_detach_attempts",
		"[libvirt]\ndevice_detach_timeout = 0\n":                            "device_detach_timeout",
	} {
		if _, err := read(text); !fault.Is(err, fault.Invalid) || !strings.Contains(err.Error(), says) {
			t.Errorf("%q: %v", text, err)
		}
	}
}
