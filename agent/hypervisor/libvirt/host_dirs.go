package libvirt

import (
	"os"
	"path/filepath"
)

// Several hosts may have one instances_path, such as on NFS. The first host has its guests directly in it. Each other
// one has a directory of its own there, with the same content as the instances_path of a host that shares nothing, so
// that no host lists or removes what belongs to another one. Only the copies of images are common.
const (
	hostsDir  = "hosts"       // has a file with the name of the host whose directory it is
	firstName = ".first-host" // a symbolic link whose target is the name of the first host
	ownPrefix = "on-"         // of the directories of the other hosts
)

// chooseDir returns the directory of a host: instances_path, or a directory in it if another host was there first. root
// is instances_path in this case, and empty otherwise.
func chooseDir(instances, host string) (dir, root string) {
	if host == "" {
		return instances, ""
	}
	own := filepath.Join(instances, ownPrefix+host)
	if exists(own, hostsDir, host) {
		return own, instances
	}
	first, _ := os.Readlink(filepath.Join(instances, firstName)) // without the link, the host that is in hosts was first
	switch {
	case first == host, exists(instances, hostsDir, host) && (first == "" || !exists(instances, hostsDir, first)):
		return instances, ""
	case len(otherHosts(instances, host)) > 0:
		return own, instances
	}
	return instances, ""
}

// exists reports whether there is a file, also if it is damaged.
func exists(path ...string) bool {
	_, err := os.Lstat(filepath.Join(path...))
	return err == nil
}

// otherHosts returns the names of the other hosts that have their guests directly in a directory.
func otherHosts(dir, host string) (names []string) {
	entries, _ := os.ReadDir(filepath.Join(dir, hostsDir)) // a missing directory has none
	for _, one := range entries {
		if one.Name() != host {
			names = append(names, one.Name())
		}
	}
	return names
}
