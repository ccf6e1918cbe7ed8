package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"os"
	"path"
	"strconv"
	"strings"
	"time"

	"github.com/openberth/berth/api/image"
	"github.com/openberth/berth/backoff"
	"github.com/openberth/berth/diskimage"
	"github.com/openberth/berth/fault"
)

// ImageCommands are the client commands on images.
type ImageCommands struct {
	Add    ImageAddCmd    `cmd:"" help:"Upload an image from a file or a URL; an upload that was interrupted can be continued."`
	List   ImageListCmd   `cmd:"" help:"List images."`
	Delete ImageDeleteCmd `cmd:"" help:"Delete images."`
}

// ImageListCmd lists images.
type ImageListCmd struct{ LongOutput }

// Run prints the images.
func (c *ImageListCmd) Run(g *Globals) error {
	ctx, cancel := g.context()
	defer cancel()
	all, err := g.images().List(ctx)
	if err != nil {
		return err
	}
	return printList(g, all, "Name", c.Long, []column[image.Listed]{
		{name: "ID", text: func(i image.Listed) string { return i.ID }},
		{name: "Name", text: func(i image.Listed) string { return dash(i.Name) }},
		{name: "Status", text: func(i image.Listed) string { return i.Status }},
		{name: "Format", text: func(i image.Listed) string { return dash(i.DiskFormat) }},
		{name: "Size", text: func(i image.Listed) string { return sizeText(i.Size) }},
		{name: "Visibility", text: func(i image.Listed) string { return i.Visibility }},
		{name: "Owner", long: true, text: func(i image.Listed) string { return dash(i.Owner) }},
		{name: "SHA-512", long: true, text: func(i image.Listed) string { return dash(i.SHA512) }},
	})
}

// sizeText returns a size in MiB.
func sizeText(bytes *int64) string {
	if bytes == nil {
		return "-"
	}
	return strconv.FormatInt((*bytes+1<<20-1)>>20, 10) + " MiB"
}

// ImageDeleteCmd deletes images.
type ImageDeleteCmd struct {
	Images []string `arg:"" name:"image" help:"Names or ids."`
}

// Run deletes the images. It tries all, and returns the failures.
func (c *ImageDeleteCmd) Run(g *Globals) error {
	ctx, cancel := g.context()
	defer cancel()
	all, err := g.images().List(ctx)
	if err != nil {
		return err
	}
	var failed error
	for _, name := range c.Images {
		id, err := imageNamed(all, name)
		if err == nil {
			err = g.images().Delete(ctx, id)
		}
		failed = errors.Join(failed, err)
	}
	return failed
}

// ImageAddCmd creates an image and uploads its data.
type ImageAddCmd struct {
	Source     string            `arg:"" help:"A file, or an http or https URL."`
	Name       string            `help:"Name of the image. Default: that of the file." placeholder:"NAME"`
	Format     string            `help:"Format of the data. Default: qcow2, iso or raw, as the data begins." enum:",raw,qcow2,iso,aki,ari,ami" default:"" placeholder:"FORMAT"`
	Visibility string            `help:"Who may use the image: private, shared, community or public. Default: ${default}." enum:"private,shared,community,public" default:"shared"`
	MinDisk    int               `help:"Smallest root disk of a flavor, in GiB." placeholder:"GIB"`
	MinRAM     int               `name:"min-ram" help:"Smallest memory of a flavor, in MiB." placeholder:"MIB"`
	Property   map[string]string `help:"Properties of the image; may be repeated." placeholder:"KEY=VALUE"`
	Resume     string            `help:"Continue the upload of this image." placeholder:"ID"`
}

// Attempts to send the data, and the longest wait between two of them.
const (
	uploadAttempts = 6
	uploadWait     = 10 * time.Second
)

// Run creates the image and sends its data. An interrupted transfer is continued; after the last attempt the error
// names the command that continues it. If the data is refused, the image that Run has created is deleted.
func (c *ImageAddCmd) Run(g *Globals) error {
	ctx := g.untilInterrupted()
	source, err := openSource(ctx, c.Source)
	if err != nil {
		return err
	}
	defer source.close()
	id := c.Resume
	if id == "" {
		if id, err = c.create(ctx, g, source); err != nil {
			return err
		}
	}
	waits := backoff.Exponential{First: time.Second, Max: uploadWait, Jitter: backoff.Around}
	for attempt := 1; ; attempt++ {
		err = c.send(ctx, g, source, id)
		if err == nil || attempt == uploadAttempts || ctx.Err() != nil || !mayContinue(err) {
			break
		}
		fmt.Fprintf(g.stderr(), "the transfer stopped: %s; trying again\n", fault.TextOf(err))
		if backoff.Sleep(ctx, waits.Wait(attempt)) != nil {
			break
		}
	}
	switch {
	case err == nil:
	case mayContinue(err):
		return fault.New(fault.KindOf(err), "the transfer stopped: %w; continue it with `berth image add "+
			"--resume %s %s`", err, id, c.Source)
	case c.Resume == "":
		return errors.Join(err, deleteRefused(ctx, g, id))
	default:
		return err
	}
	i, err := g.images().Show(ctx, id)
	if err != nil {
		return err
	}
	return g.print(i, []string{"FIELD", "VALUE"}, pairs("id", i.ID, "name", i.Name, "status", i.Status, "format",
		i.DiskFormat, "size", sizeText(i.Size), "visibility", i.Visibility, "sha512", i.SHA512))
}

// mayContinue reports whether a transfer that ended with this error can be continued.
func mayContinue(err error) bool {
	return fault.Is(err, fault.Unavailable) || errors.Is(err, context.Canceled)
}

// deleteRefused deletes an image whose data was refused. The error names an image that remains.
func deleteRefused(ctx context.Context, g *Globals, id string) error {
	err := g.images().Delete(ctx, id)
	if err == nil || fault.Is(err, fault.NotFound) {
		return nil
	}
	return fault.New(fault.KindOf(err), "the image %s without data remains: %w; delete it with "+
		"`berth image delete %s`", id, err, id)
}

// create creates the image without data.
func (c *ImageAddCmd) create(ctx context.Context, g *Globals, source *imageSource) (id string, err error) {
	format := diskimage.Format(c.Format)
	if format == "" {
		if format, err = source.detect(ctx); err != nil {
			return "", err
		}
	}
	container := "bare"
	if format == diskimage.Kernel || format == diskimage.Ramdisk || format == diskimage.Machine {
		container = string(format)
	}
	attributes := map[string]any{}
	for name, value := range c.Property {
		attributes[name] = value
	}
	maps.Copy(attributes, map[string]any{"name": cmp.Or(c.Name, source.name), "disk_format": format,
		"container_format": container, "visibility": c.Visibility, "min_disk": c.MinDisk, "min_ram": c.MinRAM})
	i, err := g.images().Create(ctx, attributes)
	return i.ID, err
}

// send sends what the service has not received yet.
func (c *ImageAddCmd) send(ctx context.Context, g *Globals, source *imageSource, id string) error {
	from, err := g.images().Received(ctx, id)
	if fault.Is(err, fault.NotFound) { // not Berth's image service
		from, err = 0, nil
	}
	if err != nil {
		return err
	}
	if source.size < 0 || from >= source.size { // from an unknown size on, or the answer to the last part was lost
		from = 0
	}
	data, err := source.from(ctx, from)
	if err != nil {
		return err
	}
	defer data.Close()
	shown := &progress{Reader: data, to: g.stderr(), name: source.name, done: from, total: source.size}
	err = g.imageData().Upload(ctx, id, shown, from, source.size)
	if fault.Is(err, fault.Conflict) {
		if i, shown := g.images().Show(ctx, id); shown == nil && i.Status == image.Active {
			return nil // the answer to an earlier attempt was lost
		}
	}
	return err
}

// imageSource is where the data of an image comes from.
type imageSource struct {
	name string
	size int64 // in bytes; -1: not known
	from func(ctx context.Context, first int64) (io.ReadCloser, error)
	end  func() error
}

func (s *imageSource) close() {
	if s.end != nil {
		_ = s.end() // it was only read
	}
}

// openSource opens a file or a URL.
func openSource(ctx context.Context, source string) (*imageSource, error) {
	if strings.HasPrefix(source, "http://") || strings.HasPrefix(source, "https://") {
		return openURL(ctx, source)
	}
	file, err := os.Open(source)
	if err != nil {
		return nil, fault.New(fault.Invalid, "cannot read the image: %w; name a file or a URL", err)
	}
	info, err := file.Stat()
	if err == nil && !info.Mode().IsRegular() {
		err = fault.New(fault.Invalid, "%s is not a regular file; name a file or a URL", source)
	}
	if err != nil {
		return nil, errors.Join(err, file.Close())
	}
	return &imageSource{name: path.Base(source), size: info.Size(), end: file.Close,
		from: func(_ context.Context, first int64) (io.ReadCloser, error) {
			return io.NopCloser(io.NewSectionReader(file, first, info.Size()-first)), nil
		}}, nil
}

// openURL asks for the size of the data at a URL.
func openURL(ctx context.Context, address string) (*imageSource, error) {
	s := &imageSource{name: path.Base(strings.SplitN(address, "?", 2)[0]), size: -1}
	s.from = func(ctx context.Context, first int64) (io.ReadCloser, error) { return getFrom(ctx, address, first) }
	request, err := http.NewRequestWithContext(ctx, http.MethodHead, address, nil)
	if err != nil {
		return nil, fault.New(fault.Invalid, "the URL is not valid: %w", err)
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return nil, fault.New(fault.Unavailable, "%s does not answer: %w", address, err)
	}
	defer response.Body.Close()
	if response.StatusCode == http.StatusOK {
		s.size = response.ContentLength
	}
	return s, nil
}

// getFrom requests the data at a URL from a byte on.
func getFrom(ctx context.Context, address string, first int64) (io.ReadCloser, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, address, nil)
	if err != nil {
		return nil, fault.New(fault.Invalid, "the URL is not valid: %w", err)
	}
	if first > 0 {
		request.Header.Set("Range", fmt.Sprintf("bytes=%d-", first))
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return nil, fault.New(fault.Unavailable, "%s does not answer: %w", address, err)
	}
	switch {
	case first > 0 && response.StatusCode == http.StatusPartialContent:
		return response.Body, nil
	case response.StatusCode == http.StatusOK: // without ranges: read what was received already
		if _, err := io.CopyN(io.Discard, response.Body, first); err == nil {
			return response.Body, nil
		}
	}
	return nil, errors.Join(response.Body.Close(), fault.New(fault.Invalid, "%s answers with status %d; check "+
		"the URL", address, response.StatusCode))
}

// detect returns the format of the data.
func (s *imageSource) detect(ctx context.Context) (diskimage.Format, error) {
	data, err := s.from(ctx, 0)
	if err != nil {
		return "", err
	}
	defer data.Close()
	head := make([]byte, diskimage.HeadBytes)
	n, err := io.ReadFull(data, head)
	if err != nil && !errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF) {
		return "", fault.New(fault.Unavailable, "cannot read the image: %w", err)
	}
	return diskimage.Detect(head[:n])
}

// progress prints how much of the data has been read, at most every two seconds.
type progress struct {
	io.Reader
	to          io.Writer
	name        string
	done, total int64
	shown       time.Time
}

// Read implements io.Reader.
func (p *progress) Read(data []byte) (int, error) {
	n, err := p.Reader.Read(data)
	p.done += int64(n)
	if p.shown.IsZero() {
		p.shown = time.Now()
	}
	if time.Since(p.shown) > 2*time.Second || err == io.EOF {
		p.shown = time.Now()
		of := ""
		if p.total > 0 {
			of = fmt.Sprintf(" of %d MiB (%d %%)", p.total>>20, p.done*100/p.total)
		}
		fmt.Fprintf(p.to, "%s: %d MiB%s\n", p.name, p.done>>20, of)
	}
	return n, err
}
