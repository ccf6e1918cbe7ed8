package libvirt

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/openberth/berth/agent/hypervisor"
	"github.com/openberth/berth/agent/hypervisor/libvirt/rpc"
	"github.com/openberth/berth/agent/imagecache"
	"github.com/openberth/berth/backoff"
	"github.com/openberth/berth/fault"
)

// stallTime is how long a source may send nothing.
const stallTime = time.Minute

// diskSource is the host of a stopped guest whose disk is copied.
type diskSource struct {
	client  *rpc.Client
	dial    func(ctx context.Context) (*rpc.Client, error) // a further connection; nil: the files are on this host
	from    hypervisor.DiskSource
	domain  domain
	runs    bool    // the guest was found running, or its migration has begun
	driver  *Driver // of this host
	created []rpc.Pool
}

// openSource connects to the libvirt of the host that has the guest, and finds the guest there.
func openSource(ctx context.Context, d *Driver, from hypervisor.DiskSource) (*diskSource, error) {
	s := &diskSource{from: from, driver: d}
	var err error
	if from.Host == d.o.Host {
		s.client, _, err = d.connect(ctx)
	} else {
		var uri string
		if uri, err = d.o.uriOf(ctx, from.Host); err != nil {
			return nil, err
		}
		s.dial = dialer(uri, d.o.CallTime)
		s.client, err = s.dial(ctx)
	}
	if err != nil {
		return nil, err
	}
	if err := s.find(ctx); err != nil {
		s.close(ctx)
		return nil, err
	}
	return s, nil
}

// find reads the domain of the guest. The fault is Unavailable if it is not there or may run: then its disk may change.
func (s *diskSource) find(ctx context.Context) error {
	var domains []domain
	var err error
	s.runs = false
	if s.dial == nil {
		domains, _, err = s.driver.list(ctx, s.client)
	} else {
		domains, err = s.driver.listOf(ctx, s.client)
	}
	if err != nil {
		return err
	}
	found, there := find(domains, s.from.Guest)
	s.runs = there && (found.running() || found.migratesTo() != "")
	switch {
	case !there:
		return fault.New(fault.Unavailable, "host %s has no guest %s", s.from.Host, s.from.Guest)
	case found.unread != "":
		return fault.New(fault.Unavailable, "the guest %s cannot be read on host %s: %s", s.from.Guest, s.from.Host,
			found.unread)
	case found.undefined:
		return fault.New(fault.Unavailable, "libvirt on host %s lacks the guest %s, which is defined there again "+
			"first", s.from.Host, s.from.Guest)
	case s.runs:
		return fault.New(fault.Unavailable, "the guest %s runs on host %s (domain %s); stop it there", s.from.Guest,
			s.from.Host, found.Name)
	}
	s.domain = found
	return nil
}

// file returns a file of the source.
func (s *diskSource) file(ctx context.Context, path string) (sourceFile, error) {
	if s.dial == nil {
		return localFile(path), nil
	}
	v, err := s.volume(ctx, path)
	if err != nil {
		return nil, fault.New(fault.Unavailable, "the file %s of host %s cannot be read: %w", path,
			s.from.Host, err)
	}
	return &remoteFile{s, v}, nil
}

// volume returns the volume of a file at another host, in a pool of its directory if there is none yet. NotFound: the
// file does not exist.
func (s *diskSource) volume(ctx context.Context, path string) (rpc.Volume, error) {
	storage, dir := rpc.StorageOf(s.client), filepath.Dir(path)
	v, err := storage.Volume(ctx, path)
	if !fault.Is(err, fault.NotFound) {
		return v, err
	}
	pool, err := storage.CreatePool(ctx, poolName(s.from.Guest, dir), dir) // reads an existing one again
	if err != nil {
		return v, err
	}
	if !slices.Contains(s.created, pool) {
		s.created = append(s.created, pool)
	}
	return storage.Volume(ctx, path)
}

// maxSmall is the largest size of a file that readSmall reads, in bytes.
const maxSmall = 64 << 10

// readSmall returns the content of a small file at the source. NotFound: it does not exist.
func (s *diskSource) readSmall(ctx context.Context, path string) (content []byte, err error) {
	if s.dial == nil {
		content, err = os.ReadFile(path)
		if errors.Is(err, fs.ErrNotExist) {
			return nil, fault.Wrap(fault.NotFound, err)
		}
		return content, fault.Wrap(fault.Unavailable, err)
	}
	v, err := s.volume(ctx, path)
	if err != nil {
		return nil, err
	}
	err = (&remoteFile{s, v}).read(ctx, 0, func(p rpc.Piece) error {
		if content = append(content, p.Data...); len(content) > maxSmall || p.Hole > 0 {
			return fault.New(fault.Conflict, "the file %s of host %s is not a record", path, s.from.Host)
		}
		return nil
	})
	return content, err
}

// baseSum returns the SHA-512 sum of the copy of an image at the source from which a disk was made, as the disk or the
// copy has it recorded; empty: it is not known.
func (s *diskSource) baseSum(ctx context.Context, disk, backing string) (string, error) {
	text, err := s.readSmall(ctx, filepath.Join(filepath.Dir(disk), baseRecordName(s.domain.guest.Build)))
	if err == nil {
		if sum := sumOf(text, backing); sum != "" {
			return sum, nil
		}
	} else if !fault.Is(err, fault.NotFound) {
		return "", fault.New(transferKind(err), "the record of the image of a disk of host %s cannot be read: %w",
			s.from.Host, err)
	}
	text, err = s.readSmall(ctx, imagecache.SumFile(backing))
	if err != nil && !fault.Is(err, fault.NotFound) {
		return "", fault.New(transferKind(err), "the sum of the image %s of host %s cannot be read: %w", backing,
			s.from.Host, err)
	}
	return strings.TrimSpace(string(text)), nil
}

// poolName returns the name of the pool of a directory from which the disk of a guest is read.
func poolName(guest, dir string) string { return "berth-" + guest + "-" + filepath.Base(dir) }

// endPools ends the pools that a destination has left which was killed while it read the disk of a guest. They do no
// harm, and nothing depends on their end.
func endPools(ctx context.Context, c *rpc.Client, guest, disk string) {
	for range maxChain {
		if pool, err := rpc.StorageOf(c).Pool(ctx, poolName(guest, filepath.Dir(disk))); err == nil {
			_ = rpc.StorageOf(c).DestroyPool(ctx, pool)
		}
		backing, err := fileBelow(disk)
		if err != nil || backing == "" {
			return
		}
		disk = backing
	}
}

// close removes what was made at the source, and ends the connection.
func (s *diskSource) close(ctx context.Context) {
	s.endPools(ctx)
	if s.dial != nil {
		s.client.Close()
	}
}

// endPools removes the pools that were made at the source.
func (s *diskSource) endPools(ctx context.Context) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), stallTime)
	defer cancel()
	for _, pool := range s.created {
		if err := rpc.StorageOf(s.client).DestroyPool(ctx, pool); err != nil {
			s.driver.o.Log.Info("storage pool not removed", "host", s.from.Host, "pool", pool.Name, "error", err)
		}
	}
}

// sourceFile is a file that is copied.
type sourceFile interface {
	state(ctx context.Context) (rpc.VolumeState, error)
	// read calls take with each piece of the file from an offset on.
	read(ctx context.Context, offset int64, take func(rpc.Piece) error) error
}

// remoteFile is a volume of the libvirt of another host.
type remoteFile struct {
	source *diskSource
	volume rpc.Volume
}

func (f *remoteFile) state(ctx context.Context) (rpc.VolumeState, error) {
	return rpc.StorageOf(f.source.client).VolumeState(ctx, f.volume)
}

// read downloads the volume, not faster than live migrations may copy. It ends when nothing has arrived for stallTime.
func (f *remoteFile) read(ctx context.Context, offset int64, take func(rpc.Piece) error) error {
	c, err := f.source.dial(ctx)
	if err != nil {
		return err
	}
	defer c.Close()
	defer context.AfterFunc(ctx, func() { c.Close() })()
	stream, err := rpc.StorageOf(c).Download(ctx, f.volume, offset)
	if err != nil {
		return err
	}
	limit := cmp.Or(f.source.driver.o.CallTime, stallTime)
	stalled := time.AfterFunc(limit, func() { c.Close() })
	defer stalled.Stop()
	began, received := time.Now(), int64(0)
	for {
		stalled.Reset(limit)
		piece, err := stream.Next()
		stalled.Stop()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err == nil {
			err = take(piece)
		}
		if err != nil {
			return err
		}
		received += int64(len(piece.Data))
		if wait := early(received, time.Since(began), f.source.driver.o.Migration.Bandwidth); wait > 0 {
			if err := backoff.Sleep(ctx, wait); err != nil {
				return fault.Wrap(fault.Unavailable, err)
			}
		}
	}
}

// early returns by how much some bytes have arrived too early for a bandwidth in MiB/s; 0: there is no limit.
func early(bytes int64, after time.Duration, bandwidth int) time.Duration {
	if bandwidth <= 0 {
		return 0
	}
	return time.Duration(float64(bytes)/float64(bandwidth<<20)*float64(time.Second)) - after
}

// localFile is the path of a file of this host.
type localFile string

func (f localFile) state(context.Context) (rpc.VolumeState, error) {
	status, err := os.Stat(string(f))
	if err != nil {
		return rpc.VolumeState{}, fault.Wrap(fault.Unavailable, err)
	}
	return rpc.VolumeState{Size: status.Size(), Changed: fmt.Sprint(status.ModTime().UnixNano())}, nil
}

// The values of lseek that find data and holes.
const (
	seekData = 3
	seekHole = 4
)

func (f localFile) read(ctx context.Context, offset int64, take func(rpc.Piece) error) error {
	file, err := os.Open(string(f))
	if err != nil {
		return fault.Wrap(fault.Unavailable, err)
	}
	defer file.Close()
	status, err := file.Stat()
	if err != nil {
		return fault.Wrap(fault.Unavailable, err)
	}
	buffer := make([]byte, 256<<10)
	for offset < status.Size() {
		if err := ctx.Err(); err != nil {
			return fault.Wrap(fault.Unavailable, err)
		}
		data, err := file.Seek(offset, seekData)
		if err != nil { // there are no data any more
			data = status.Size()
		}
		if data > offset {
			if err := take(rpc.Piece{Hole: data - offset}); err != nil {
				return err
			}
			offset = data
			continue
		}
		end, err := file.Seek(offset, seekHole)
		if err != nil {
			end = status.Size()
		}
		n, err := file.ReadAt(buffer[:min(int64(len(buffer)), end-offset)], offset)
		if n == 0 {
			return fault.Wrap(fault.Unavailable, err)
		}
		if err := take(rpc.Piece{Data: buffer[:n]}); err != nil {
			return err
		}
		offset += int64(n)
	}
	return nil
}

// transferKind returns Unavailable for an error of a connection or of libvirt; a fault keeps its kind.
func transferKind(err error) fault.Kind {
	if kind := fault.KindOf(err); kind == fault.Conflict || kind == fault.Invalid {
		return kind
	}
	return fault.Unavailable
}
