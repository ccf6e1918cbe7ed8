package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/url"
	"os"
	"path"
	"strconv"
	"strings"

	"github.com/openberth/berth/api/image"
	"github.com/openberth/berth/diskimage"
	"github.com/openberth/berth/fault"
)

// ImageCommands are the client commands on images.
type ImageCommands struct {
	Add    ImageAddCmd    `cmd:"" help:"Upload an image from a file or a URL; an upload that was interrupted can be continued."`
	List   ImageListCmd   `cmd:"" help:"List images."`
	Show   ImageShowCmd   `cmd:"" help:"Show an image."`
	Set    ImageSetCmd    `cmd:"" help:"Change, hide, protect, deactivate or activate an image."`
	Save   ImageSaveCmd   `cmd:"" help:"Download an image to a file; the same command continues an interrupted download."`
	Delete ImageDeleteCmd `cmd:"" help:"Delete images."`
	Member ImageMemberCmd `cmd:"" help:"Share images with other projects."`
	Accept ImageAnswerCmd `cmd:"" help:"Accept an image that another project shares: lists show it."`
	Reject ImageAnswerCmd `cmd:"" help:"Reject an image that another project shares: lists leave it out."`
}

// NewImageCommands returns the client commands on images, for Kong to fill.
func NewImageCommands() ImageCommands {
	return ImageCommands{Accept: ImageAnswerCmd{status: "accepted"}, Reject: ImageAnswerCmd{status: "rejected"}}
}

// ImageListCmd lists images.
type ImageListCmd struct {
	Hidden       bool   `help:"Only hidden images."`
	Visibility   string `help:"Only private, shared, community or public images, or all that the project may see." placeholder:"WORD"`
	MemberStatus string `help:"Of the images that are shared with the project, those that it has accepted, rejected, or not answered (pending), or all." placeholder:"STATUS"`
	LongOutput
}

// Run prints the images.
func (c *ImageListCmd) Run(g *Globals) error {
	ctx, cancel := g.context()
	defer cancel()
	query := url.Values{}
	for name, value := range map[string]string{"visibility": c.Visibility, "member_status": c.MemberStatus} {
		if value != "" {
			query.Set(name, value)
		}
	}
	if c.Hidden {
		query.Set("os_hidden", "true")
	}
	all, err := listImages(ctx, g, query)
	if err != nil {
		return err
	}
	return printList(g, all, "Name", c.Long, []column[document]{
		attribute("ID", "id"), attribute("Name", "name"), attribute("Status", "status"), attribute("Format", "disk_format"),
		{name: "Size", text: func(d document) string { return sizeText(sizeOf(d)) }},
		attribute("Visibility", "visibility"), long(attribute("Owner", "owner")), long(attribute("Tags", "tags")),
		long(attribute("Created", "created_at")), long(attribute("SHA-512", "os_hash_value")),
	})
}

// sizeText returns a size in MiB; "-" for -1.
func sizeText(bytes int64) string {
	if bytes < 0 {
		return "-"
	}
	return strconv.FormatInt((bytes+1<<20-1)>>20, 10) + " MiB"
}

// ImageDeleteCmd deletes images.
type ImageDeleteCmd struct {
	Images []string `arg:"" name:"image" help:"Names or ids."`
}

// Run deletes the images, also after failures, and prints the results.
func (c *ImageDeleteCmd) Run(g *Globals) error {
	return removeEach(g, "images", c.Images, func(ctx context.Context, name string) (string, error) {
		id, err := imageAnywhere(ctx, g, name)
		if err == nil {
			err = g.images().Delete(ctx, id)
		}
		return id, err
	})
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
	Resume     string            `help:"Continue the upload of this image (name or id)." placeholder:"IMAGE"`
	Quietness
}

// Run creates the image and sends its data. An interrupted transfer is continued; after the last attempt the error
// names the command that continues it. If the data is refused, the image that Run has created is deleted.
func (c *ImageAddCmd) Run(g *Globals) error {
	ctx := g.untilInterrupted()
	source, err := openSource(ctx, c.Source)
	if err != nil {
		return err
	}
	defer source.close()
	id, err := c.image(ctx, g, source)
	if err != nil {
		return err
	}
	err = retried(ctx, g, func() error { return c.send(ctx, g, source, id) })
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
	made, err := readImage(ctx, g, id)
	if err != nil {
		return err
	}
	return printObject(g, made)
}

// image returns the id of the image that gets the data: a new one, or that of --resume.
func (c *ImageAddCmd) image(ctx context.Context, g *Globals, source *imageSource) (string, error) {
	if c.Resume != "" {
		return imageAnywhere(ctx, g, c.Resume)
	}
	return c.create(ctx, g, source)
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
	shown, bounded, end := newProgress(ctx, g, c.Quiet, source.name, from, source.size)
	defer end()
	data, err := source.from(bounded, from)
	if err != nil {
		return err
	}
	defer data.Close()
	shown.Reader = data
	err = g.imageData().Upload(bounded, id, shown, from, source.size)
	if paused := context.Cause(bounded); err != nil && paused != nil && ctx.Err() == nil {
		err = fault.New(fault.Unavailable, "%w", paused)
	}
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
	ctx, cancel := context.WithTimeout(ctx, pauseLimit)
	defer cancel()
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
	ctx, cancel := context.WithTimeout(ctx, pauseLimit)
	defer cancel()
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
