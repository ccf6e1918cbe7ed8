package settings

import (
	"log/slog"
	"net/url"
	"path/filepath"
	"time"

	"github.com/openberth/berth/config"
)

// LibvirtSettings are the options of the hypervisor driver libvirt.
type LibvirtSettings struct {
	Socket    string        // from [libvirt] connection_uri; "": that of the system's libvirt
	VirtType  string        // [libvirt] virt_type: kvm or qemu; "": kvm where it works
	CPUModel  string        // [libvirt] cpu_models: the first; "": the host's
	Instances string        // [DEFAULT] instances_path
	Shutdown  time.Duration // [DEFAULT] shutdown_timeout, seconds in the file
}

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
			return e.Fault("settings.Read", "%q is not an address of this machine's libvirt; write qemu:///system, or "+
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
		return e.Fault("settings.Read", "not an absolute path; write the whole path of the directory")
	}
	seconds, err := cfg.Int("DEFAULT", "shutdown_timeout", defaultShutdown, 0, 86400)
	l.Shutdown = time.Duration(seconds) * time.Second
	return err
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
