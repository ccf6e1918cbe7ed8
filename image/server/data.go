package server

import (
	"errors"
	"io"
	"net/http"
	"os"
	"strconv"
	"strings"

	"github.com/openberth/berth/api/edge"
	"github.com/openberth/berth/fault"
	"github.com/openberth/berth/image/store"
)

const octets = "application/octet-stream"

// upload is PUT /v2/images/{id}/file.
func (s *server) upload(c *call) error {
	i, u, err := s.readUpload(c)
	if err != nil {
		return err
	}
	if _, err := s.Store.Upload(i.ID, u); err != nil {
		return tooLarge(err)
	}
	return c.WriteStatus(http.StatusNoContent)
}

// tooLarge returns the error of the store with status 413 if it is about limits, as Glance answers.
func tooLarge(err error) error {
	if fault.CodeOf(err) == store.OverLimit {
		return &edge.StatusError{Status: http.StatusRequestEntityTooLarge, Err: err}
	}
	return err
}

// readUpload returns the image of the path and the data of the request. A header Content-Range says which part of the
// image the body is; the service has received the bytes before it by an upload that ended early.
func (s *server) readUpload(c *call) (i store.Image, u store.Upload, err error) {
	if kind, _, _ := strings.Cut(c.R.Header.Get("Content-Type"), ";"); strings.TrimSpace(kind) != octets {
		return i, u, edge.StatusErrorf(http.StatusUnsupportedMediaType, "the media type of the data of an image is %s",
			octets)
	}
	if i, err = c.find("upload_image"); err != nil {
		return i, u, err
	}
	u = store.Upload{Data: &clientBody{c.R.Body}, Total: c.R.ContentLength, Limits: s.Limits}
	if text := c.R.Header.Get("Content-Range"); text != "" {
		if u.From, u.Total, err = parseContentRange(text); err != nil {
			return i, u, err
		}
	}
	return i, u, nil
}

// clientBody is a body whose errors are those of the client.
type clientBody struct{ io.Reader }

// Read implements io.Reader.
func (b *clientBody) Read(p []byte) (int, error) {
	n, err := b.Reader.Read(p)
	switch {
	case err == nil || err == io.EOF:
		return n, err
	case errors.Is(err, os.ErrDeadlineExceeded):
		return n, edge.StatusErrorf(http.StatusRequestTimeout, "the data arrived too slowly; continue the upload")
	}
	return n, fault.New(fault.Invalid, "the data ended early: %w; continue the upload", err)
}

// parseContentRange parses "bytes FIRST-LAST/TOTAL".
func parseContentRange(text string) (from, total int64, err error) {
	part, whole, _ := strings.Cut(strings.TrimPrefix(text, "bytes "), "/")
	first, last, _ := strings.Cut(part, "-")
	from, err1 := strconv.ParseInt(first, 10, 64)
	to, err2 := strconv.ParseInt(last, 10, 64)
	total, err3 := strconv.ParseInt(whole, 10, 64)
	if errors.Join(err1, err2, err3) != nil || from < 0 || to < from || to+1 != total {
		return 0, 0, fault.New(fault.Invalid, "Content-Range %q is not valid; write bytes FIRST-LAST/TOTAL, where LAST is "+
			"the last byte of the image", text)
	}
	return from, total, nil
}

func (s *server) showUpload(c *call) error {
	i, err := c.find("get_image")
	if err != nil {
		return err
	}
	received, err := s.Store.Received(i.ID)
	if err != nil {
		return err
	}
	return c.WriteJSON(http.StatusOK, map[string]any{"received": received, "status": i.Status})
}

// download is GET /v2/images/{id}/file. An image without data is answered with 204.
func (s *server) download(c *call) error {
	i, err := c.find("download_image")
	if err != nil {
		return err
	}
	switch {
	case !i.HasData():
		return c.WriteStatus(http.StatusNoContent)
	case i.Status == store.Deactivated && !c.Who.IsAdmin():
		return fault.New(fault.Forbidden, "image %s is deactivated; reactivate it first", i.ID)
	}
	file, err := s.Store.Data(i.ID)
	if err != nil {
		return err
	}
	defer file.Close()
	h := c.W.Header()
	h.Set("Content-Type", octets)
	h.Set("Content-Md5", i.MD5)
	h.Set("Etag", `"`+i.SHA512+`"`)
	http.ServeContent(c.W, c.R, "", i.Updated, file)
	return nil
}
