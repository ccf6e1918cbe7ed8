package main

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"

	"github.com/goreleaser/nfpm/v2"
	_ "github.com/goreleaser/nfpm/v2/deb" // registers the format
	nfpmfiles "github.com/goreleaser/nfpm/v2/files"
	_ "github.com/goreleaser/nfpm/v2/rpm" // registers the format
)

const summary = "OpenStack Placement, compute, network and image services with a host agent"

// description is the long description of the packages. Debian's is indented by nfpm.
const description = summary + `
Berth is an implementation of the OpenStack Placement API in one static
binary, with a compute service, a network service, an image service, and an
agent for hosts with PCI devices and guests of libvirt.`

// deb builds the package for Debian.
func (b *build) deb(arch string) error {
	debian := map[string]string{"ppc64le": "ppc64el"}[arch]
	if debian == "" {
		debian = arch
	}
	info, err := b.info("deb", debian, arch)
	if err != nil {
		return err
	}
	info.Depends = []string{"systemd"}
	info.Recommends = []string{"nftables", "dnsmasq-base", "iproute2"}
	info.Suggests = []string{"libvirt-daemon-system", "libvirt-daemon-driver-qemu", "qemu-utils"}
	info.Deb.Compression = "gzip"
	scripts, err := b.scripts("deb", "postinst", "prerm", "postrm")
	if err != nil {
		return err
	}
	info.Scripts = nfpm.Scripts{PostInstall: scripts[0], PreRemove: scripts[1], PostRemove: scripts[2]}
	return b.write("deb", info, "berth_"+b.version+"_"+debian+".deb")
}

// rpm builds the package for distributions with RPM.
func (b *build) rpm(arch string) error {
	machine := map[string]string{"amd64": "x86_64", "arm64": "aarch64", "ppc64le": "ppc64le"}[arch]
	if machine == "" {
		return fmt.Errorf("no name of RPM for %s", arch)
	}
	info, err := b.info("rpm", machine, arch)
	if err != nil {
		return err
	}
	info.Release = "1"
	info.Depends = []string{"systemd"}
	info.RPM.Summary, info.RPM.BuildHost, info.RPM.Group = summary, "localhost", "System Environment/Daemons"
	info.RPM.Compression = "gzip"
	scripts, err := b.scripts("rpm", "post", "preun", "postun")
	if err != nil {
		return err
	}
	info.Scripts = nfpm.Scripts{PostInstall: scripts[0], PreRemove: scripts[1], PostRemove: scripts[2]}
	return b.write("rpm", info, "berth-"+b.version+"-1."+machine+".rpm")
}

// info returns what both formats have; name is that of the architecture in the format.
func (b *build) info(family, name, arch string) (*nfpm.Info, error) {
	binary, err := b.binary(arch)
	if err != nil {
		return nil, err
	}
	list, err := b.contents(family, arch)
	if err != nil {
		return nil, err
	}
	contents := nfpmfiles.Contents{
		b.content(item{path: "/usr/bin/berth", mode: 0o755}, binary),
		{Destination: "/etc/berth", Type: nfpmfiles.TypeDir,
			FileInfo: &nfpmfiles.ContentFileInfo{Owner: "root", Group: "root", Mode: 0o750, MTime: b.time}},
	}
	for i, one := range list {
		file, err := b.stage(fmt.Sprintf("%s-%d", family, i), one.data)
		if err != nil {
			return nil, err
		}
		contents = append(contents, b.content(one, file))
	}
	return nfpm.WithDefaults(&nfpm.Info{Name: "berth", Arch: name, Platform: "linux", Version: b.version,
		VersionSchema: "none", Section: "net", Priority: "optional",
		Maintainer: "The Berth developers <berth@example.org>", Description: description,
		Homepage: "https://github.com/openberth/berth", License: "Apache-2.0", MTime: b.time, DisableGlobbing: true,
		Overridables: nfpm.Overridables{Contents: contents}}), nil
}

// content returns a file of a package whose bytes are in the file source.
func (b *build) content(one item, source string) *nfpmfiles.Content {
	kind := nfpmfiles.TypeFile
	if one.config {
		kind = nfpmfiles.TypeConfigNoReplace
	}
	return &nfpmfiles.Content{Source: source, Destination: one.path, Type: kind,
		FileInfo: &nfpmfiles.ContentFileInfo{Owner: "root", Group: "root", Mode: one.mode, MTime: b.time}}
}

// stage writes a file for nfpm, and returns its path.
func (b *build) stage(name string, data []byte) (string, error) {
	path := filepath.Join(b.temporary, name)
	return path, os.WriteFile(path, data, 0o600)
}

func (b *build) scripts(family string, names ...string) ([]string, error) {
	var paths []string
	for _, name := range names {
		text, err := script(family, name)
		if err != nil {
			return nil, err
		}
		path, err := b.stage(family+"-"+name, text)
		if err != nil {
			return nil, err
		}
		paths = append(paths, path)
	}
	return paths, nil
}

// write builds a package and writes it into the directory of the results.
func (b *build) write(format string, info *nfpm.Info, name string) error {
	packager, err := nfpm.Get(format)
	if err != nil {
		return err
	}
	var out bytes.Buffer
	if err := packager.Package(info, &out); err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(b.out, name), out.Bytes(), 0o644)
}
