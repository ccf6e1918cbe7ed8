package image

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"time"

	"github.com/openberth/berth/api/identity"
	"github.com/openberth/berth/fault"
)

// stall is how long a download may pause.
const stall = time.Minute

// Download reads the data of an image, from an offset on. from is the offset at which body begins: 0 if the image
// service cannot continue a download. The body ends with an error when it pauses for a minute; the caller closes it.
// Faults as of Image; NotFound also if the image has no data. It does not check whether the caller may see the image.
func (c *Client) Download(ctx context.Context, who identity.Identity, token, id string, offset int64) (
	body io.ReadCloser, from int64, err error) {
	servers, err := c.servers(ctx)
	if err != nil {
		return nil, 0, err
	}
	server := withoutVersion(servers[c.first(len(servers))%len(servers)])
	path := "/v2/images/" + url.PathEscape(id) + "/file"
	ctx, cancel := context.WithCancelCause(ctx)
	d := &download{cancel: cancel}
	d.timer = time.AfterFunc(stall, func() {
		cancel(fmt.Errorf("the image service at %s has sent nothing for %s", server, stall))
	})
	defer func() {
		if err != nil {
			d.stop()
		}
	}()
	request, err := c.request(ctx, who, token, server+path)
	if err != nil {
		return nil, 0, err
	}
	request.Header.Set("Accept", "application/octet-stream")
	if offset > 0 {
		request.Header.Set("Range", fmt.Sprintf("bytes=%d-", offset))
	}
	client := *c.o.HTTP
	client.Timeout = 0 // of the whole body; stall limits each part
	response, err := client.Do(request)
	if err != nil {
		return nil, 0, fault.New(fault.Unavailable, "the image service at %s does not answer: %w", server,
			errors.Join(err, context.Cause(ctx)))
	}
	d.body, d.ctx = response.Body, ctx
	switch response.StatusCode {
	case http.StatusPartialContent:
		return d, offset, nil
	case http.StatusOK:
		return d, 0, nil
	case http.StatusNoContent:
		err = fault.New(fault.NotFound, "the image %s has no data", id)
	case http.StatusUnauthorized:
		c.renew(request)
		fallthrough
	default:
		err = readAnswer(server, path, response.StatusCode, nil, c.o.Account != nil, nil)
	}
	return nil, 0, err
}

// download is the body of a download with the limit of its pauses.
type download struct {
	ctx    context.Context
	cancel context.CancelCauseFunc
	timer  *time.Timer
	body   io.ReadCloser
}

// Read reads the next part.
func (d *download) Read(p []byte) (int, error) {
	d.timer.Reset(stall)
	n, err := d.body.Read(p)
	if err != nil && err != io.EOF {
		err = fault.New(fault.Unavailable, "the download has ended: %w", errors.Join(err, context.Cause(d.ctx)))
	}
	return n, err
}

// Close ends the download.
func (d *download) Close() error {
	defer d.stop()
	return d.body.Close()
}

func (d *download) stop() {
	d.timer.Stop()
	d.cancel(nil)
	if d.body != nil {
		d.body.Close()
	}
}
