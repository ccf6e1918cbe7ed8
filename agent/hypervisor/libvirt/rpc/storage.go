package rpc

import (
	"context"
	"encoding/xml"
	"errors"

	"github.com/google/uuid"

	"github.com/openberth/berth/fault"
)

// Storage are the calls about storage pools and their volumes.
type Storage struct{ client *Client }

// StorageOf returns the calls about storage of a connection.
func StorageOf(c *Client) Storage { return Storage{c} }

// Pool is a storage pool: a directory whose files libvirt reads as volumes.
type Pool struct {
	Name string
	UUID uuid.UUID
}

// Volume is a file of a storage pool.
type Volume struct{ Pool, Name, Key string }

// VolumeState is what libvirt knows of the file of a volume.
type VolumeState struct {
	Size    int64  // of the file in bytes
	Changed string // when it was last written, in seconds since 1970 with a fraction
}

// Pools returns the number of active pools. The fault is Conflict if the daemon has no driver for storage.
func (s Storage) Pools(ctx context.Context) (int, error) {
	d, err := s.client.call(ctx, connectNumOfPools, encoder{}, nil)
	if known, is := errors.AsType[*Error](err); is && known.Code == ErrNoSupport {
		return 0, fault.New(fault.Conflict, "this libvirt has no storage driver: %w", err)
	}
	if err != nil {
		return 0, err
	}
	n := d.number()
	return n, d.err()
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
	var e encoder
	e.text(string(text))
	e.word(0)
	created, failed := s.poolOf(ctx, poolCreateXML, e)
	if failed == nil || fault.Is(failed, fault.Unavailable) {
		return created, failed
	}
	found, err := s.Pool(ctx, name)
	if err != nil {
		return Pool{}, failed
	}
	e = encoder{}
	e.pool(found)
	e.word(0)
	_, err = s.client.call(ctx, poolRefresh, e, nil)
	return found, err
}

// Pool returns the pool with a name. NotFound: there is none.
func (s Storage) Pool(ctx context.Context, name string) (Pool, error) {
	var e encoder
	e.text(name)
	found, err := s.poolOf(ctx, poolLookupByName, e)
	if known, is := errors.AsType[*Error](err); is && known.Code == ErrNoPool {
		return found, fault.Wrap(fault.NotFound, err)
	}
	return found, err
}

// DestroyPool ends a pool. Its files stay.
func (s Storage) DestroyPool(ctx context.Context, of Pool) error {
	var e encoder
	e.pool(of)
	_, err := s.client.call(ctx, poolDestroy, e, nil)
	return err
}

// poolOf makes a call that returns a pool.
func (s Storage) poolOf(ctx context.Context, p Procedure, arguments encoder) (Pool, error) {
	d, err := s.client.call(ctx, p, arguments, nil)
	if err != nil {
		return Pool{}, err
	}
	out := Pool{Name: d.text()}
	copy(out.UUID[:], d.take(len(out.UUID)))
	return out, d.err()
}

// Volume returns the volume of a path in an active pool. NotFound: no pool has it.
func (s Storage) Volume(ctx context.Context, path string) (v Volume, err error) {
	var e encoder
	e.text(path)
	d, err := s.client.call(ctx, volLookupByPath, e, nil)
	if known, is := errors.AsType[*Error](err); is && known.Code == ErrNoVolume {
		return v, fault.Wrap(fault.NotFound, err)
	}
	if err != nil {
		return v, err
	}
	v = Volume{Pool: d.text(), Name: d.text(), Key: d.text()}
	return v, d.err()
}

// VolumeState returns the present state of a volume's file.
func (s Storage) VolumeState(ctx context.Context, of Volume) (VolumeState, error) {
	var e encoder
	e.volume(of)
	e.word(0)
	text, err := s.client.textOf(ctx, volGetXMLDesc, e)
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

// Download reads a volume's file from an offset to its end. Its holes arrive as such. The connection must have no other
// calls meanwhile, because they wait until the data have been read.
func (s Storage) Download(ctx context.Context, of Volume, offset int64) (*Stream, error) {
	const sparse = 1 // VIR_STORAGE_VOL_DOWNLOAD_SPARSE_STREAM
	var e encoder
	e.volume(of)
	e.long(uint64(offset))
	e.long(0) // to the end
	e.word(sparse)
	stream := newStream(volDownload, s.client.send, s.client.forgetStream)
	stream.waits = true
	if _, err := s.client.call(ctx, volDownload, e, stream); err != nil {
		return nil, err
	}
	return stream, nil
}

func (e *encoder) pool(of Pool) {
	e.text(of.Name)
	e.fixed(of.UUID[:])
}

func (e *encoder) volume(of Volume) {
	e.text(of.Pool)
	e.text(of.Name)
	e.text(of.Key)
}
