package settings

import (
	"errors"
	"log/slog"
	"net/url"
	"path/filepath"
	"strings"
	"time"

	"github.com/openberth/berth/agent/hypervisor/libvirt/rpc"
	"github.com/openberth/berth/config"
)

// Detaching are the options of detaching devices from running guests: [libvirt] device_detach_….
type Detaching struct {
	Attempts int           // attempts: how often a guest is requested to release a device
	Timeout  time.Duration // timeout: after each request, seconds in the file
}

// The defaults of [libvirt] device_detach_attempts and device_detach_timeout, in seconds: Nova's.
const (
	defaultDetachAttempts = 8
	defaultDetachTimeout  = 20
)

// defaultCompletion is the default of [libvirt] live_migration_completion_timeout, in seconds: Nova's.
const defaultCompletion = 800

const imageCacheGroup = "image_cache"

// The defaults of [image_cache], in seconds: Nova's.
const (
	defaultImageCleanup = 2400
	defaultImageAge     = 86400
)

const libvirtGroup = "libvirt"

// defaultShutdown is the default of [DEFAULT] shutdown_timeout, in seconds: Nova's.
const defaultShutdown = 60

// defaultInstances is the default of [DEFAULT] instances_path. It is not below the agent's directory, which only the
// agent may read: guests run as another user.
const defaultInstances = "/var/lib/berth/instances"

// knownLibvirt lists the options of LibvirtSettings.
func knownLibvirt() []config.Name {
	return []config.Name{
		{Group: libvirtGroup, Option: "connection_uri"}, {Group: libvirtGroup, Option: "virt_type"},
		{Group: libvirtGroup, Option: "cpu_models"}, {Group: "DEFAULT", Option: "instances_path"},
		{Group: "DEFAULT", Option: "shutdown_timeout"},
		{Group: libvirtGroup, Option: "live_migration_uri"}, {Group: libvirtGroup, Option: "live_migration_scheme"},
		{Group: libvirtGroup, Option: "live_migration_inbound_addr"},
		{Group: libvirtGroup, Option: "live_migration_with_native_tls"},
		{Group: libvirtGroup, Option: "live_migration_permit_auto_converge"},
		{Group: libvirtGroup, Option: "live_migration_bandwidth"},
		{Group: libvirtGroup, Option: "live_migration_completion_timeout"},
		{Group: libvirtGroup, Option: "device_detach_attempts"}, {Group: libvirtGroup, Option: "device_detach_timeout"},
		{Group: imageCacheGroup, Option: "manager_interval"},
		{Group: imageCacheGroup, Option: "remove_unused_base_images"},
		{Group: imageCacheGroup, Option: "remove_unused_original_minimum_age_seconds"},
	}
}

func (s *Settings) readLibvirt(cfg *config.Config, _ *slog.Logger) (err error) {
	l := &s.Libvirt
	uri, err := cfg.String(libvirtGroup, "connection_uri", "", nil)
	if err != nil {
		return err
	}
	if e, ok := cfg.Get(libvirtGroup, "connection_uri"); ok && uri != "" {
		socket, local := libvirtSocket(uri)
		if !local {
			return e.Fault("%q is not an address of this machine's libvirt; write qemu:///system, or "+
				"qemu+unix:///system?socket=PATH", uri)
		}
		l.Socket = socket
	}
	if l.VirtType, err = cfg.String(libvirtGroup, "virt_type", "", []string{"", "kvm", "qemu"}); err != nil {
		return err
	}
	models, err := cfg.Strings(libvirtGroup, "cpu_models", nil)
	if err != nil {
		return err
	}
	if len(models) > 0 {
		l.CPUModel = models[0]
	}
	if l.Instances, err = cfg.String("DEFAULT", "instances_path", defaultInstances, nil); err != nil {
		return err
	}
	if e, ok := cfg.Get("DEFAULT", "instances_path"); ok && !filepath.IsAbs(l.Instances) {
		return e.Fault("not an absolute path; write the whole path of the directory")
	}
	seconds, err := cfg.Int("DEFAULT", "shutdown_timeout", defaultShutdown, 0, 86400)
	l.Shutdown = time.Duration(seconds) * time.Second
	if err != nil {
		return err
	}
	if err := errors.Join(l.Migration.read(cfg), l.Detaching.read(cfg)); err != nil {
		return err
	}
	return l.readImageCache(cfg)
}

// read reads the options of detaching.
func (d *Detaching) read(cfg *config.Config) (err error) {
	if d.Attempts, err = cfg.Int(libvirtGroup, "device_detach_attempts", defaultDetachAttempts, 1, 1000); err != nil {
		return err
	}
	seconds, err := cfg.Int(libvirtGroup, "device_detach_timeout", defaultDetachTimeout, 1, 3600)
	d.Timeout = time.Duration(seconds) * time.Second
	return err
}

// read reads the options of live migration.
func (m *LiveMigration) read(cfg *config.Config) (err error) {
	scheme, err := cfg.String(libvirtGroup, "live_migration_scheme", "tcp", []string{"tcp", "tls"})
	if err != nil {
		return err
	}
	if m.URI, err = cfg.String(libvirtGroup, "live_migration_uri", "", nil); err != nil {
		return err
	}
	if m.URI == "" {
		m.URI = "qemu+" + scheme + "://%s/system"
	}
	if err := rpc.CheckURI(strings.ReplaceAll(m.URI, "%s", "host")); err != nil {
		if e, ok := cfg.Get(libvirtGroup, "live_migration_uri"); ok {
			return e.Fault("%w", err)
		}
		return err
	}
	if m.Address, err = cfg.String(libvirtGroup, "live_migration_inbound_addr", "", nil); err != nil {
		return err
	}
	if e, ok := cfg.Get(libvirtGroup, "live_migration_inbound_addr"); ok && strings.ContainsAny(m.Address, "/ <>&\"'") {
		return e.Fault("%q is not an address; write the IP address or the name of this host", m.Address)
	}
	if m.TLS, err = cfg.Bool(libvirtGroup, "live_migration_with_native_tls", false); err != nil {
		return err
	}
	if m.Converge, err = cfg.Bool(libvirtGroup, "live_migration_permit_auto_converge", false); err != nil {
		return err
	}
	if m.Bandwidth, err = cfg.Int(libvirtGroup, "live_migration_bandwidth", 0, 0, 1<<31-1); err != nil {
		return err
	}
	seconds, err := cfg.Int(libvirtGroup, "live_migration_completion_timeout", defaultCompletion, 0, 1<<20)
	m.Limit = time.Duration(seconds) * time.Second
	return err
}

// readImageCache reads [image_cache]. As in Nova, an interval of 0 is the usual one, and -1 means never.
func (l *LibvirtSettings) readImageCache(cfg *config.Config) error {
	every, err := cfg.Int(imageCacheGroup, "manager_interval", defaultImageCleanup, -1, 1<<31-1)
	if err != nil {
		return err
	}
	age, err := cfg.Int(imageCacheGroup, "remove_unused_original_minimum_age_seconds", defaultImageAge, 0, 1<<31-1)
	if err != nil {
		return err
	}
	remove, err := cfg.Bool(imageCacheGroup, "remove_unused_base_images", true)
	if err != nil {
		return err
	}
	switch {
	case every == 0:
		every = defaultImageCleanup
	case every < 0 || !remove:
		every = 0
	}
	l.ImageCleanup, l.ImageAge = time.Duration(every)*time.Second, time.Duration(age)*time.Second
	return nil
}

// libvirtSocket returns the socket in the address of a libvirt, empty for the usual one; local is false for an address
// that is not that of the system's libvirt on this machine.
func libvirtSocket(uri string) (socket string, local bool) {
	u, err := url.Parse(uri)
	if err != nil || u.Host != "" || u.Path != "/system" || u.Scheme != "qemu" && u.Scheme != "qemu+unix" {
		return "", false
	}
	socket = u.Query().Get("socket")
	return socket, socket == "" || filepath.IsAbs(socket)
}
