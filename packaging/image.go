package main

import (
	"archive/tar"
	"bytes"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/types"
)

// imageUser is the user of the image: a number that no distribution gives to a user.
const imageUser = 64500

// image builds the OCI image of an architecture: a tar file of a layout with its index. The image has the program, its
// licences, a user, and a directory for state.
func (b *build) image(arch string) error {
	data, err := b.layer(arch)
	if err != nil {
		return err
	}
	open := func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(data)), nil }
	layer, err := tarball.LayerFromOpener(open,
		tarball.WithMediaType(types.OCILayer), tarball.WithCompressionLevel(9))
	if err != nil {
		return err
	}
	base := mutate.ConfigMediaType(mutate.MediaType(empty.Image, types.OCIManifestSchema1), types.OCIConfigJSON)
	img, err := mutate.Append(base, mutate.Addendum{Layer: layer, History: v1.History{Created: v1.Time{Time: b.time},
		CreatedBy: "make packages"}})
	if err != nil {
		return err
	}
	img, err = mutate.ConfigFile(img, b.imageConfig(img, arch))
	if err != nil {
		return err
	}
	dir := filepath.Join(b.temporary, "oci-"+arch)
	path, err := layout.Write(dir, mutate.IndexMediaType(empty.Index, types.OCIImageIndex))
	if err != nil {
		return err
	}
	if err := path.AppendImage(img, layout.WithPlatform(v1.Platform{OS: "linux", Architecture: arch}),
		layout.WithAnnotations(map[string]string{"org.opencontainers.image.ref.name": "berth:latest"})); err != nil {
		return err
	}
	return archive(dir, filepath.Join(b.out, "berth_"+b.version+"_"+arch+".oci.tar"), b.time)
}

// imageConfig returns the configuration of the image with the layers that it has.
func (b *build) imageConfig(img v1.Image, arch string) *v1.ConfigFile {
	config, err := img.ConfigFile()
	if err != nil { // does not occur: the image is in memory
		config = &v1.ConfigFile{}
	}
	config = config.DeepCopy()
	config.Created, config.OS, config.Architecture = v1.Time{Time: b.time}, "linux", arch
	config.Config = v1.Config{Entrypoint: []string{"/usr/bin/berth"}, User: "berth", WorkingDir: "/var/lib/berth",
		Volumes: map[string]struct{}{"/var/lib/berth": {}},
		Labels: map[string]string{"org.opencontainers.image.title": "berth", "org.opencontainers.image.version": b.version,
			"org.opencontainers.image.revision": b.commit, "org.opencontainers.image.licenses": "Apache-2.0",
			"org.opencontainers.image.source": "https://github.com/openberth/berth"}}
	return config
}

// layer returns the tar file of the only layer.
func (b *build) layer(arch string) ([]byte, error) {
	binary, err := b.binary(arch)
	if err != nil {
		return nil, err
	}
	program, err := os.ReadFile(binary)
	if err != nil {
		return nil, err
	}
	terms, err := b.notices(arch)
	if err != nil {
		return nil, err
	}
	own, err := os.ReadFile(filepath.Join(b.dir, "LICENSE"))
	if err != nil {
		return nil, err
	}
	const user = "berth:x:64500:64500:Berth:/var/lib/berth:/sbin/nologin\n"
	var out bytes.Buffer
	w := tar.NewWriter(&out)
	for _, entry := range []struct {
		name  string
		mode  int64
		owner int
		data  []byte
	}{
		{"etc/", 0o755, 0, nil}, {"etc/passwd", 0o644, 0, []byte(user)}, {"etc/group", 0o644, 0, []byte("berth:x:64500:\n")},
		{"tmp/", 0o1777, 0, nil}, {"usr/", 0o755, 0, nil}, {"usr/bin/", 0o755, 0, nil},
		{"usr/bin/berth", 0o755, 0, program}, {"usr/share/", 0o755, 0, nil}, {"usr/share/doc/", 0o755, 0, nil},
		{"usr/share/doc/berth/", 0o755, 0, nil}, {"usr/share/doc/berth/copyright", 0o644, 0, own},
		{"usr/share/doc/berth/modules", 0o644, 0, terms}, {"var/", 0o755, 0, nil}, {"var/lib/", 0o755, 0, nil},
		{"var/lib/berth/", 0o700, imageUser, nil},
	} {
		header := &tar.Header{Name: entry.name, Mode: entry.mode, Uid: entry.owner, Gid: entry.owner, ModTime: b.time,
			Size: int64(len(entry.data)), Typeflag: tar.TypeReg, Format: tar.FormatUSTAR}
		if entry.data == nil {
			header.Typeflag = tar.TypeDir
		}
		if err := w.WriteHeader(header); err != nil {
			return nil, err
		}
		if _, err := w.Write(entry.data); err != nil {
			return nil, err
		}
	}
	err = w.Close()
	return out.Bytes(), err
}

// archive writes the files below dir into a tar file, sorted, of root and with this time.
func archive(dir, path string, at time.Time) (err error) {
	var names []string
	if err := filepath.WalkDir(dir, func(path string, _ fs.DirEntry, err error) error {
		names = append(names, path)
		return err
	}); err != nil {
		return err
	}
	slices.Sort(names)
	file, err := os.Create(path)
	if err != nil {
		return err
	}
	defer file.Close()
	w := tar.NewWriter(file)
	for _, name := range names[1:] {
		if err := addFile(w, dir, name, at); err != nil {
			return err
		}
	}
	if err := w.Close(); err != nil {
		return err
	}
	return file.Sync()
}

// addFile writes one file or directory.
func addFile(w *tar.Writer, dir, name string, at time.Time) error {
	info, err := os.Stat(name)
	if err != nil {
		return err
	}
	relative, err := filepath.Rel(dir, name)
	if err != nil {
		return err
	}
	header := &tar.Header{Name: filepath.ToSlash(relative), Mode: 0o644, ModTime: at, Typeflag: tar.TypeReg,
		Format: tar.FormatPAX}
	if info.IsDir() {
		header.Name, header.Mode, header.Typeflag = header.Name+"/", 0o755, tar.TypeDir
		return w.WriteHeader(header)
	}
	if info.Mode()&0o100 != 0 {
		header.Mode = 0o755
	}
	data, err := os.ReadFile(name)
	if err != nil {
		return err
	}
	header.Size = int64(len(data))
	if err := w.WriteHeader(header); err != nil {
		return err
	}
	_, err = w.Write(data)
	return err
}
