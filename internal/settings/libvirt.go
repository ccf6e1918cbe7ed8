package settings

import (
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

const libvirtGroup, imageCacheGroup = "libvirt", "image_cache"

// defaultImageCleanup is the default of [image_cache] manager_interval, in seconds: Nova's.
const defaultImageCleanup = 2400

// defaultImageCacheMax is the default of [DEFAULT] image_cache_max_size, in bytes: Glance's.
const defaultImageCacheMax = 10 << 30

// libvirtOptions are the rows of LibvirtSettings. Defaults are Nova's, except instances_path, which is not below the
// agent's directory, because only the agent may read that: guests run as another user.
func (s *Settings) libvirtOptions() config.Options {
	l := &s.Libvirt
	m, d := &l.Migration, &l.Detaching
	return config.Options{
		config.Text(libvirtGroup, "connection_uri", &s.raw.uri, ""),
		config.Text(libvirtGroup, "virt_type", &l.VirtType, "", "", "kvm", "qemu"),
		config.List(libvirtGroup, "cpu_models", &s.raw.cpuModels),
		config.Text("DEFAULT", "instances_path", &l.Instances, "/var/lib/berth/instances"),
		config.Seconds("DEFAULT", "shutdown_timeout", &l.Shutdown, 60, 0, 86400),
		config.Text(libvirtGroup, "live_migration_uri", &m.URI, ""),
		config.Text(libvirtGroup, "live_migration_scheme", &s.raw.scheme, "tcp", "tcp", "tls"),
		config.Text(libvirtGroup, "live_migration_inbound_addr", &m.Address, ""),
		config.Flag(libvirtGroup, "live_migration_with_native_tls", &m.TLS, false),
		config.Flag(libvirtGroup, "live_migration_permit_auto_converge", &m.Converge, false),
		config.Number(libvirtGroup, "live_migration_bandwidth", &m.Bandwidth, 0, 0, 1<<31-1),
		config.Seconds(libvirtGroup, "live_migration_completion_timeout", &m.Limit, 800, 0, 1<<20),
		config.Number(libvirtGroup, "device_detach_attempts", &d.Attempts, 8, 1, 1000),
		config.Seconds(libvirtGroup, "device_detach_timeout", &d.Timeout, 20, 1, 3600),
		config.Number("DEFAULT", "image_cache_max_size", &l.ImageCacheMax, defaultImageCacheMax, 0, 1<<62),
		config.Seconds(imageCacheGroup, "manager_interval", &l.ImageCleanup, defaultImageCleanup, -1, 1<<31-1),
		config.Flag(imageCacheGroup, "remove_unused_base_images", &s.raw.removeImages, true),
		config.Seconds(imageCacheGroup, "remove_unused_original_minimum_age_seconds", &l.ImageAge, 86400, 0, 1<<31-1),
	}
}

// checkLibvirt completes the options of the driver libvirt. As in Nova, an interval of 0 for the images is the usual
// one, and -1 means never.
func (s *Settings) checkLibvirt(cfg *config.Config, _ *slog.Logger) error {
	l := &s.Libvirt
	switch {
	case l.ImageCleanup < 0 || !s.raw.removeImages:
		l.ImageCleanup = 0
	case l.ImageCleanup == 0:
		l.ImageCleanup = defaultImageCleanup * time.Second
	}
	if len(s.raw.cpuModels) > 0 {
		l.CPUModel = s.raw.cpuModels[0]
	}
	if e, ok := cfg.Get(libvirtGroup, "connection_uri"); ok && s.raw.uri != "" {
		socket, local := libvirtSocket(s.raw.uri)
		if !local {
			return e.Fault("%q is not an address of this machine's libvirt; write qemu:///system, or "+
				"qemu+unix:///system?socket=PATH", s.raw.uri)
		}
		l.Socket = socket
	}
	if e, ok := cfg.Get("DEFAULT", "instances_path"); ok && !filepath.IsAbs(l.Instances) {
		return e.Fault("not an absolute path; write the whole path of the directory")
	}
	return l.Migration.check(cfg, s.raw.scheme)
}

// check completes the options of live migration.
func (m *LiveMigration) check(cfg *config.Config, scheme string) error {
	if m.URI == "" {
		m.URI = "qemu+" + scheme + "://%s/system"
	}
	if err := rpc.CheckURI(strings.ReplaceAll(m.URI, "%s", "host")); err != nil {
		if e, ok := cfg.Get(libvirtGroup, "live_migration_uri"); ok {
			return e.Fault("%w", err)
		}
	}
	if e, ok := cfg.Get(libvirtGroup, "live_migration_inbound_addr"); ok && strings.ContainsAny(m.Address, "/ <>&\"'") {
		return e.Fault("%q is not an address; write the IP address or the name of this host", m.Address)
	}
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
