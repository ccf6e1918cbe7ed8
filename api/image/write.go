package image

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/openberth/berth/api/identity"
	"github.com/openberth/berth/fault"
)

// ShelvedTag is the tag of each image that compute has created for the disk of a server, which is shelved or copied.
const ShelvedTag = "berth-shelved"

// ShelvedServer is the property of such an image with the UUID of the server.
const ShelvedServer = "berth_shelved_server"

// Account is a client with its own caller. It creates, uploads and deletes images.
//
// Faults: Unavailable, if a later call may succeed; NotFound; Conflict; Forbidden, if the account may not do this;
// Invalid for what the image service does not accept.
type Account struct {
	Client *Client
	Who    identity.Identity // without an account in [glance]: the caller, which the image service trusts
	Token  string
}

// Image returns an image.
func (a Account) Image(ctx context.Context, id string) (Image, error) {
	return a.Client.Image(ctx, a.Who, a.Token, id)
}

// Download is Client.Download.
func (a Account) Download(ctx context.Context, id string, offset int64) (io.ReadCloser, int64, error) {
	return a.Client.Download(ctx, a.Who, a.Token, id, offset)
}

// Create creates an image without data from attributes of the API. Conflict: there is, or was, an image with its id.
func (a Account) Create(ctx context.Context, attributes map[string]any) error {
	text, err := json.Marshal(attributes)
	if err != nil {
		return fault.Wrap(fault.Internal, err)
	}
	return a.call(ctx, http.MethodPost, "/v2/images", text, nil)
}

// Delete deletes an image.
func (a Account) Delete(ctx context.Context, id string) error {
	return a.call(ctx, http.MethodDelete, "/v2/images/"+url.PathEscape(id), nil, nil)
}

// List returns the images that have all values of a filter, of all projects, the newest first.
func (a Account) List(ctx context.Context, filter url.Values) (list []Image, err error) {
	query := maps.Clone(filter)
	query["visibility"], query["limit"] = []string{"all"}, []string{"500"}
	next := "/v2/images?" + query.Encode()
	for next != "" {
		var page struct {
			Images []Image
			Next   string
		}
		if err := a.call(ctx, http.MethodGet, next, nil, &page); err != nil {
			return nil, err
		}
		list, next = append(list, page.Images...), page.Next
	}
	return list, nil
}

// Unmark removes ShelvedTag and ShelvedServer from an image.
func (a Account) Unmark(ctx context.Context, id string) error {
	path := "/v2/images/" + url.PathEscape(id)
	err := a.call(ctx, http.MethodDelete, path+"/tags/"+ShelvedTag, nil, nil)
	if err != nil && !fault.Is(err, fault.NotFound) {
		return err
	}
	return a.call(ctx, http.MethodPatch, path, []byte(`[{"op":"remove","path":"/`+ShelvedServer+`"}]`), nil)
}

// Received returns how many bytes of an image's data the image service has: an upload can be continued there. It is 0
// for a service other than Berth's, which has no such request.
func (a Account) Received(ctx context.Context, id string) (int64, error) {
	var answer struct{ Received int64 }
	err := a.call(ctx, http.MethodGet, "/berth/v1/images/"+url.PathEscape(id)+"/upload", nil, &answer)
	if kind := fault.KindOf(err); err != nil && kind != fault.Unavailable {
		return 0, nil
	}
	return answer.Received, err
}

// call makes a request with a JSON body, or without a body, within the time of the client.
func (a Account) call(ctx context.Context, method, path string, body []byte, into any) error {
	ctx, cancel := context.WithTimeout(ctx, a.Client.time)
	defer cancel()
	header := http.Header{"Content-Type": {"application/json"}}
	if method == http.MethodPatch {
		header.Set("Content-Type", "application/openstack-images-v2.1-json-patch")
	}
	send := func() ([]byte, bool, error) {
		return a.send(ctx, a.Client.o.HTTP, method, path, header, bytes.NewReader(body), int64(len(body)))
	}
	answer, renewed, err := send()
	if renewed {
		answer, _, err = send()
	}
	if err != nil || into == nil {
		return err
	}
	if err := json.Unmarshal(answer, into); err != nil {
		return fault.New(fault.Unavailable, "the answer of the image service to %s is not valid: %w", path, err)
	}
	return nil
}

// Upload sends the data of an image from a byte on, of which total is the size. Only Berth's image service accepts data
// that begin at another byte than 0. It ends when the image service has received nothing for a minute, or has not
// answered for five.
func (a Account) Upload(ctx context.Context, id string, data io.Reader, from, total int64) error {
	header := http.Header{"Content-Type": {"application/octet-stream"}}
	if from > 0 {
		header.Set("Content-Range", fmt.Sprintf("bytes %d-%d/%d", from, total-1, total))
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	body := &upload{data: data, timer: time.AfterFunc(stall, func() {
		cancel(fmt.Errorf("the image service has accepted nothing for %s", stall))
	})}
	defer body.timer.Stop()
	client := *a.Client.o.HTTP
	client.Timeout = 0 // of the whole body; stall limits each part
	_, _, err := a.send(ctx, &client, http.MethodPut, "/v2/images/"+url.PathEscape(id)+"/file", header, body, total-from)
	if cause := context.Cause(ctx); err != nil && cause != nil {
		return fault.New(fault.Unavailable, "the upload has ended: %w", cause)
	}
	return err
}

// upload is the body of an upload with the limit of its pauses.
type upload struct {
	data  io.Reader
	timer *time.Timer
}

// Read returns the next part, when the image service has accepted the one before.
func (u *upload) Read(p []byte) (int, error) {
	n, err := u.data.Read(p)
	if err != nil { // the image service checks the data
		u.timer.Reset(5 * stall)
	} else {
		u.timer.Reset(stall)
	}
	return n, err
}

// send makes one request and returns the body of its answer. renewed is true if the account was refused and has a new
// token now.
func (a Account) send(ctx context.Context, client *http.Client, method, path string, header http.Header,
	body io.Reader, length int64) (text []byte, renewed bool, err error) {
	c := a.Client
	servers, err := c.servers(ctx)
	if err != nil {
		return nil, false, err
	}
	server := withoutVersion(servers[c.first(len(servers))%len(servers)])
	request, err := c.request(ctx, a.Who, a.Token, server+path)
	if err != nil {
		return nil, false, err
	}
	request.Method, request.Body, request.ContentLength = method, io.NopCloser(body), length
	if length == 0 {
		request.Body = http.NoBody
	}
	maps.Copy(request.Header, header)
	response, err := client.Do(request)
	if err != nil {
		return nil, false, fault.New(fault.Unavailable, "the image service at %s does not answer: %w", server, err)
	}
	defer response.Body.Close()
	text, err = io.ReadAll(io.LimitReader(response.Body, maxAnswer))
	switch status := response.StatusCode; {
	case err != nil:
		return nil, false, fault.New(fault.Unavailable, "the answer of the image service at %s ended early: %w", server,
			err)
	case slices.Contains([]int{http.StatusOK, http.StatusCreated, http.StatusNoContent}, status):
		return text, false, nil
	case status == http.StatusUnauthorized:
		renewed = c.renew(request)
		fallthrough
	default:
		return nil, renewed, refusal(server, method, path, status, text)
	}
}

// refusal returns the fault of an answer.
func refusal(server, method, path string, status int, text []byte) error {
	kind := fault.Unavailable
	switch status {
	case http.StatusForbidden:
		return fault.New(fault.Forbidden, "the image service at %s does not let the account of [glance] do this "+
			"(%s %s: status 403); give the account the role admin", server, method, path)
	case http.StatusNotFound, http.StatusGone:
		kind = fault.NotFound
	case http.StatusConflict:
		kind = fault.Conflict
	case http.StatusBadRequest, http.StatusRequestEntityTooLarge, http.StatusUnsupportedMediaType:
		kind = fault.Invalid
	}
	return fault.New(kind, "the image service at %s answered %s %s with status %d: %s", server, method, path, status,
		sentenceOf(text))
}

// sentenceOf returns the message of an answer, at most 300 characters.
func sentenceOf(text []byte) string {
	var known struct {
		Message string `json:"message"`
		Errors  []struct{ Detail string }
	}
	s := string(text)
	if json.Unmarshal(text, &known) == nil {
		if s = known.Message; s == "" && len(known.Errors) > 0 {
			s = known.Errors[0].Detail
		}
	}
	s = strings.Join(strings.Fields(s), " ")
	if r := []rune(s); len(r) > 300 {
		s = string(r[:300]) + " …"
	}
	return s
}
