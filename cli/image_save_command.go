package cli

import (
	"context"
	"crypto/md5" // of images of services that show no other sum
	"crypto/sha256"
	"crypto/sha512"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
	"io/fs"
	"net/http"
	"os"
	"strings"

	"github.com/openberth/berth/api/rest"
	"github.com/openberth/berth/diskimage"
	"github.com/openberth/berth/fault"
)

// ImageSaveCmd downloads the data of an image.
type ImageSaveCmd struct {
	Image     string `arg:"" help:"Name or id."`
	File      string `arg:"" help:"The file to write, or - for standard output." type:"path"`
	Overwrite bool   `help:"Replace the file if it exists."`
	Quietness
}

// savedImage is the result of ImageSaveCmd.
type savedImage struct {
	ID       string `json:"id"`
	File     string `json:"file"`
	Bytes    int64  `json:"bytes"`
	Verified string `json:"verified"` // the algorithm of the sum; empty: the service shows none
}

// Run downloads the image to FILE.ID.part, verifies its sum and renames it. An interrupted download is continued by the
// same command. Blocks of zeros take no space.
func (c *ImageSaveCmd) Run(g *Globals) error {
	ctx := g.untilInterrupted()
	id, err := imageAnywhere(ctx, g, c.Image)
	if err != nil {
		return err
	}
	meta, err := readImage(ctx, g, id)
	if err != nil {
		return err
	}
	if c.File == "-" {
		return c.stream(ctx, g, meta)
	}
	if _, err := os.Stat(c.File); !errors.Is(err, fs.ErrNotExist) && !c.Overwrite {
		return fault.New(fault.Conflict, "%s exists; name another file, or use --overwrite", c.File)
	}
	part := c.File + "." + id + ".part"
	err = retried(ctx, g, func() error { return c.continuePart(ctx, g, meta, part) })
	if mayContinue(err) {
		return fault.New(fault.KindOf(err), "the transfer stopped: %w; the same command continues it", err)
	}
	if err != nil {
		return err
	}
	verified, size, err := verifyFile(part, meta)
	if err != nil {
		return err
	}
	if err := os.Rename(part, c.File); err != nil {
		return fault.New(fault.Unavailable, "cannot rename %s: %w", part, err)
	}
	return g.print(savedImage{id, c.File, size, verified}, []string{"Field", "Value"}, pairs("id", id, "file", c.File,
		"bytes", fmt.Sprint(size), "verified", dash(verified)))
}

// stream writes the data to standard output. It cannot be continued.
func (c *ImageSaveCmd) stream(ctx context.Context, g *Globals, meta document) error {
	shown, ctx, end := newProgress(ctx, g, c.Quiet, meta.text("name"), 0, sizeOf(meta))
	defer end()
	body, _, err := openImage(ctx, g, meta.text("id"), 0)
	if err != nil {
		return err
	}
	defer body.Close()
	shown.Reader = body
	if _, err := io.Copy(g.stdout(), shown); err != nil {
		return fault.New(fault.Unavailable, "the transfer stopped: %w", withCause(ctx, err))
	}
	return nil
}

// continuePart downloads what a file does not have yet.
func (c *ImageSaveCmd) continuePart(ctx context.Context, g *Globals, meta document, part string) (err error) {
	file, err := os.OpenFile(part, os.O_CREATE|os.O_WRONLY, 0o644)
	if err != nil {
		return fault.New(fault.Invalid, "cannot write the image: %w; name a file in a directory that you may write to", err)
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	have, err := file.Seek(0, io.SeekEnd)
	if err != nil {
		return fault.New(fault.Invalid, "cannot write the image: %w", err)
	}
	total := sizeOf(meta)
	if total >= 0 && have == total {
		return nil
	}
	if total >= 0 && have > total {
		have = 0
	}
	shown, bounded, end := newProgress(ctx, g, c.Quiet, c.File, have, total)
	defer end()
	body, from, err := openImage(bounded, g, meta.text("id"), have)
	if err != nil {
		return err
	}
	defer body.Close()
	if err := file.Truncate(from); err != nil {
		return fault.New(fault.Invalid, "cannot write the image: %w", err)
	}
	shown.Reader, shown.done, shown.first = body, from, from
	sparse := &diskimage.SparseWriter{To: file, Offset: from}
	_, copied := io.Copy(sparse, shown)
	if err := errors.Join(file.Truncate(sparse.Offset), file.Sync()); err != nil {
		return fault.New(fault.Invalid, "cannot write the image: %w; free space on the disk", err)
	}
	if copied != nil {
		var disk *fs.PathError
		if errors.As(copied, &disk) {
			return fault.New(fault.Invalid, "cannot write the image: %w; free space on the disk", copied)
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
		return fault.New(fault.Unavailable, "the data ended early: %w", withCause(bounded, copied))
	}
	if total >= 0 && sparse.Offset != total {
		return fault.New(fault.Unavailable, "the data ended after %d of %d bytes", sparse.Offset, total)
	}
	return nil
}

// openImage requests the data of an image from a byte on; from is where they begin.
func openImage(ctx context.Context, g *Globals, id string, first int64) (body io.ReadCloser, from int64, err error) {
	client, path := g.imageData().REST, "/v2/images/"+pathEscape(id)+"/file"
	client = client.WithHeader("Accept", "application/octet-stream")
	if first > 0 {
		client = client.WithHeader("Range", fmt.Sprintf("bytes=%d-", first))
	}
	answer, err := client.Send(ctx, http.MethodGet, path, nil)
	if err != nil {
		return nil, 0, err
	}
	switch answer.StatusCode {
	case http.StatusPartialContent:
		return answer.Body, first, nil
	case http.StatusOK:
		return answer.Body, 0, nil
	case http.StatusNoContent:
		answer.Body.Close()
		return nil, 0, fault.New(fault.Conflict, "image %s has no data; upload or import it first", id)
	case http.StatusRequestedRangeNotSatisfiable: // of a service that does not continue downloads
		answer.Body.Close()
		return openImage(ctx, g, id, 0)
	}
	if err := rest.AnswerFault(http.MethodGet, path, answer); err != nil {
		return nil, 0, err
	}
	answer.Body.Close()
	return nil, 0, fault.New(fault.Internal, "the image service answers with status %d", answer.StatusCode)
}

// sums are the algorithms of os_hash_algo.
var sums = map[string]func() hash.Hash{"sha512": sha512.New, "sha256": sha256.New, "sha384": sha512.New384,
	"md5": md5.New}

// verifyFile compares a file with the sum of an image. It returns the algorithm, empty if the service shows no sum, and
// the size. A file with another sum is removed.
func verifyFile(path string, meta document) (algorithm string, size int64, err error) {
	file, err := os.Open(path)
	if err != nil {
		return "", 0, fault.New(fault.Unavailable, "cannot read what was downloaded: %w", err)
	}
	defer file.Close()
	algorithm, want := meta.text("os_hash_algo"), meta.text("os_hash_value")
	if sums[algorithm] == nil || want == "" {
		algorithm, want = "md5", meta.text("checksum")
	}
	sum := sums[algorithm]()
	if size, err = io.Copy(sum, file); err != nil {
		return "", 0, fault.New(fault.Unavailable, "cannot read what was downloaded: %w", err)
	}
	have := hex.EncodeToString(sum.Sum(nil))
	if want == "" {
		return "", size, nil
	}
	if !strings.EqualFold(have, want) {
		return "", 0, errors.Join(fault.New(fault.Unavailable, "the data has the %s sum %s instead of %s: it was changed on "+
			"its way; download it again", algorithm, have, want), os.Remove(path))
	}
	return algorithm, size, nil
}
