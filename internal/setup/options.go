// Package setup makes a cloud on one machine for `berth init`: certificates, accounts, the configuration, the running
// service, flavors, a network, a key pair and a clouds.yaml. It records each thing before it makes it, so that a run
// that was interrupted can be completed, and so that Undo removes what it made and nothing else. It also joins further
// machines to the cloud.
package setup

import (
	"bytes"
	"cmp"
	"errors"
	"io"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strings"

	"go.yaml.in/yaml/v4"

	"github.com/openberth/berth/api/identity"
	"github.com/openberth/berth/fault"
	"github.com/openberth/berth/internal/join"
	"github.com/openberth/berth/internal/settings"
	"github.com/openberth/berth/internal/userfile"
)

// Options are what the cloud should be. They have the same names in the file of `berth init --file`.
type Options struct {
	Driver  string   `yaml:"driver" json:"driver"`                 // libvirt or fake
	Listen  string   `yaml:"listen" json:"listen"`                 // address of all APIs: HOST or HOST:PORT
	Host    string   `yaml:"host" json:"host,omitempty"`           // name of the host; empty: that of the machine
	User    string   `yaml:"user" json:"user"`                     // account of the user
	Project string   `yaml:"project" json:"project"`               // of the user
	Network Network  `yaml:"network" json:"network"`               // with NAT and DHCP
	Flavors []Flavor `yaml:"flavors" json:"flavors"`               // empty: the usual ones
	Key     string   `yaml:"ssh_key" json:"ssh_key,omitempty"`     // public key; empty: one of ~/.ssh, or a new one
	Virt    string   `yaml:"virt_type" json:"virt_type,omitempty"` // kvm or qemu; empty: kvm where it works
	Sysfs   string   `yaml:"sysfs" json:"sysfs,omitempty"`         // [berth] sysfs, for tries
	Config  string   `yaml:"config_dir" json:"config_dir"`         // directory of the configuration
	Data    string   `yaml:"data_dir" json:"data_dir"`             // directory of the state
	Home    string   `yaml:"home" json:"home"`                     // home directory of the user
	Join    string   `yaml:"-" json:"join,omitempty"`              // URL of the cloud that this machine has joined
	Local   string   `yaml:"local_ip" json:"local_ip,omitempty"`   // of this machine, for networks and moves
	NoMoves bool     `yaml:"no_moves" json:"no_moves,omitempty"`   // libvirt is not set up for moves between machines
}

// Network is the network of the servers.
type Network struct {
	Name string `yaml:"name" json:"name"`
	CIDR string `yaml:"cidr" json:"cidr"`
}

// Flavor is a size of servers.
type Flavor struct {
	Name  string `yaml:"name" json:"name"`
	VCPUs int    `yaml:"vcpus" json:"vcpus"`
	RAM   int    `yaml:"ram" json:"ram"`   // MiB
	Disk  int    `yaml:"disk" json:"disk"` // GiB
}

// The names of what is made, and the defaults.
const (
	Fake         = "fake"
	Libvirt      = "libvirt"
	DefaultPort  = "8770"
	admin        = "admin"
	adminCloud   = "berth-admin"
	loopback     = "127.0.0.1"
	packagedConf = "/etc/berth"
	packagedData = "/var/lib/berth"
)

// The accounts of hosts that join.
const (
	hostPrefix  = join.AccountPrefix
	hostProject = "service"
)

func usualFlavors() []Flavor {
	return []Flavor{{"tiny", 1, 512, 1}, {"small", 1, 1024, 10}, {"medium", 2, 2048, 20}, {"large", 4, 4096, 40},
		{"xlarge", 8, 8192, 80}}
}

// ReadFile reads options from a file. It returns fault.Invalid for a name that is not an option.
func ReadFile(path string) (o Options, err error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return o, fault.New(fault.Invalid, "cannot read --file: %w", err)
	}
	d := yaml.NewDecoder(bytes.NewReader(text))
	d.KnownFields(true)
	if err := d.Decode(&o); err != nil && !errors.Is(err, io.EOF) {
		return o, fault.New(fault.Invalid, "%s is not valid: %w; the options are driver, listen, host, user, project, "+
			"network (name, cidr), flavors (name, vcpus, ram, disk), ssh_key, virt_type, sysfs, local_ip, no_moves, "+
			"config_dir, data_dir and home",
			path, err)
	}
	return o, nil
}

// Complete returns the options with their defaults, or fault.Invalid for the first that is not valid.
func (o Options) Complete() (Options, error) {
	o.Driver, o.Listen = cmp.Or(o.Driver, Libvirt), cmp.Or(o.Listen, loopback)
	o.User, o.Project = cmp.Or(o.User, "user"), cmp.Or(o.Project, "default")
	o.Network.Name = cmp.Or(o.Network.Name, "private")
	o.Config, o.Data = cmp.Or(o.Config, packagedConf), cmp.Or(o.Data, packagedData)
	if len(o.Flavors) == 0 && o.Join == "" {
		o.Flavors = usualFlavors()
	}
	if o.Driver != Libvirt && o.Driver != Fake {
		return o, fault.New(fault.Invalid, "driver %q is not valid; use libvirt or fake", o.Driver)
	}
	host, port, err := net.SplitHostPort(o.Listen)
	if err != nil {
		host, port = o.Listen, DefaultPort
	}
	if net.ParseIP(host) == nil || net.ParseIP(host).IsUnspecified() {
		return o, fault.New(fault.Invalid, "listen %q is not an address of this machine; use an IP address that other "+
			"machines reach, such as 10.0.0.1", host)
	}
	o.Listen = net.JoinHostPort(host, port)
	if err := errors.Join(checkUser(o.User), identity.CheckProject(o.Project)); err != nil {
		return o, err
	}
	if o.Local == "" && o.Join == "" {
		o.Local = host
	}
	for _, dir := range []*string{&o.Config, &o.Data, &o.Home} {
		if *dir, err = filepath.Abs(*dir); err != nil {
			return o, fault.New(fault.Invalid, "the directory %q is not valid: %w", *dir, err)
		}
	}
	if o.Join != "" {
		return o, nil
	}
	if o.Network.CIDR == "" {
		o.Network.CIDR, err = freeRange(hostRanges())
	} else if _, _, bad := net.ParseCIDR(o.Network.CIDR); bad != nil {
		err = fault.New(fault.Invalid, "network.cidr %q is not a range of addresses; use one such as 10.66.0.0/24",
			o.Network.CIDR)
	}
	return o, err
}

// checkUser returns fault.Invalid for the name of a user that the user file cannot hold, or that init gives to others.
func checkUser(name string) error {
	if name == admin || strings.HasPrefix(name, hostPrefix) {
		return fault.New(fault.Invalid, "user %q is not valid: this is the name of the administrator or of a host; choose "+
			"another name", name)
	}
	return userfile.CheckName(name)
}

// host returns the address of all APIs, without the port.
func (o Options) host() string {
	host, _, _ := net.SplitHostPort(o.Listen) // Complete has checked it
	return host
}

// tls reports whether the APIs are served with TLS: at each address but the usual one.
func (o Options) tls() bool { return o.host() != loopback }

// URL returns the URL of all APIs.
func (o Options) URL() string {
	if o.Join != "" {
		return o.Join
	}
	if o.tls() {
		return "https://" + o.Listen
	}
	return "http://" + o.Listen
}

// Paths of what is made.
func (o Options) confFile() string   { return filepath.Join(o.Config, "berth.conf") }
func (o Options) envFile() string    { return filepath.Join(o.Config, "environment") }
func (o Options) userFile() string   { return filepath.Join(o.Config, "htpasswd") }
func (o Options) rolesFile() string  { return o.userFile() + settings.RolesSuffix }
func (o Options) caFile() string     { return filepath.Join(o.Config, "ca.pem") }
func (o Options) caKey() string      { return filepath.Join(o.Config, "ca.key") }
func (o Options) certFile() string   { return filepath.Join(o.Config, "cert.pem") }
func (o Options) keyFile() string    { return filepath.Join(o.Config, "key.pem") }
func (o Options) stateDir() string   { return filepath.Join(o.Data, "up") }        // as berth.service of the packages
func (o Options) instances() string  { return filepath.Join(o.Data, "instances") } // the default of instances_path
func (o Options) recordFile() string { return filepath.Join(o.Data, "init.json") }
func (o Options) pidFile() string    { return filepath.Join(o.Data, "berth.pid") }
func (o Options) logFile() string    { return filepath.Join(o.Data, "berth.log") }
func (o Options) userCA() string     { return filepath.Join(filepath.Dir(o.cloudsFile()), "berth-ca.pem") }
func (o Options) cloudsFile() string {
	return filepath.Join(o.Home, ".config", "openstack", "clouds.yaml")
}

// exists reports whether there is something at a path.
func exists(path string) bool {
	_, err := os.Lstat(path)
	return !errors.Is(err, fs.ErrNotExist)
}
