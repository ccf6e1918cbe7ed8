package rpc

import (
	"context"
	"encoding/xml"
	"io"

	"github.com/digitalocean/go-libvirt"

	"github.com/openberth/berth/fault"
)

// Storage are the calls about storage pools and their volumes.
type Storage struct{ client *Client }

// StorageOf returns the calls about storage of a connection.
func StorageOf(c *Client) Storage { return Storage{c} }

// Pool is a storage pool: a directory whose files libvirt reads as volumes.
type Pool = libvirt.StoragePool

// Volume is a file of a storage pool.
type Volume = libvirt.StorageVol

// VolumeState is what libvirt knows of the file of a volume.
type VolumeState struct {
	Size    int64  // of the file in bytes
	Changed string // when it was last written, in seconds since 1970 with a fraction
}

// Pools returns the number of active pools. The fault is Conflict if the daemon has no driver for storage.
func (s Storage) Pools(ctx context.Context) (int, error) {
	n, err := call(ctx, s.client, reads, (*libvirt.Libvirt).ConnectNumOfStoragePools)
	if hasCode(err, ErrNoSupport) {
		return 0, fault.New(fault.Conflict, "this libvirt has no storage driver: %w", err)
	}
	return int(n), err
}

// CreatePool makes and starts a pool of a directory that lasts until it is destroyed or the daemon ends. If there is an
// active pool with this name, it is returned with its volumes read again.
func (s Storage) CreatePool(ctx context.Context, name, dir string) (Pool, error) {
	text, err := xml.Marshal(struct {
		XMLName xml.Name `xml:"pool"`
		Type    string   `xml:"type,attr"`
		Name    string   `xml:"name"`
		Path    string   `xml:"target>path"`
	}{Type: "dir", Name: name, Path: dir})
	if err != nil {
		return Pool{}, fault.Wrap(fault.Internal, err)
	}
	created, failed := call(ctx, s.client, alters, func(l *libvirt.Libvirt) (Pool, error) {
		return l.StoragePoolCreateXML(string(text), 0)
	})
	if failed == nil || fault.Is(failed, fault.Unavailable) {
		return created, failed
	}
	found, err := s.Pool(ctx, name)
	if err != nil {
		return Pool{}, failed
	}
	return found, do(ctx, s.client, reads, func(l *libvirt.Libvirt) error { return l.StoragePoolRefresh(found, 0) })
}

// Pool returns the pool with a name. NotFound: there is none.
func (s Storage) Pool(ctx context.Context, name string) (Pool, error) {
	found, err := call(ctx, s.client, reads, func(l *libvirt.Libvirt) (Pool, error) {
		return l.StoragePoolLookupByName(name)
	})
	if hasCode(err, ErrNoPool) {
		return found, fault.Wrap(fault.NotFound, err)
	}
	return found, err
}

// DestroyPool ends a pool. Its files stay.
func (s Storage) DestroyPool(ctx context.Context, of Pool) error {
	return do(ctx, s.client, alters, func(l *libvirt.Libvirt) error { return l.StoragePoolDestroy(of) })
}

// Volume returns the volume of a path in an active pool. NotFound: no pool has it.
func (s Storage) Volume(ctx context.Context, path string) (Volume, error) {
	found, err := call(ctx, s.client, reads, func(l *libvirt.Libvirt) (Volume, error) {
		return l.StorageVolLookupByPath(path)
	})
	if hasCode(err, ErrNoVolume) {
		return found, fault.Wrap(fault.NotFound, err)
	}
	return found, err
}

// VolumeState returns the present state of a volume's file.
func (s Storage) VolumeState(ctx context.Context, of Volume) (VolumeState, error) {
	text, err := call(ctx, s.client, reads, func(l *libvirt.Libvirt) (string, error) {
		return l.StorageVolGetXMLDesc(of, 0)
	})
	if err != nil {
		return VolumeState{}, err
	}
	var parsed struct {
		Physical int64  `xml:"physical"`
		Changed  string `xml:"target>timestamps>mtime"`
	}
	if err := xml.Unmarshal([]byte(text), &parsed); err != nil {
		return VolumeState{}, fault.Wrap(fault.Internal, err)
	}
	return VolumeState{Size: parsed.Physical, Changed: parsed.Changed}, nil
}

// Download reads a volume's file from an offset to its end. Its holes arrive as such. The connection is for this
// download: other calls wait until the data have been read, and it must be closed to abandon the download.
func (s Storage) Download(ctx context.Context, of Volume, offset int64) (*Stream, error) {
	stream := newStream(true)
	if !s.client.wire.download.CompareAndSwap(nil, stream) {
		return nil, fault.New(fault.Internal, "the connection to libvirt already has a download")
	}
	if err := s.client.openStream(ctx, stream, func(l *libvirt.Libvirt) error {
		return l.StorageVolDownload(of, io.Discard, uint64(offset), 0, libvirt.StorageVolDownloadSparseStream)
	}); err != nil {
		return nil, err
	}
	return stream, nil
}
