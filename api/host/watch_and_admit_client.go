package host

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/openberth/berth/api/rest"
	"github.com/openberth/berth/fault"
)

// WatchRequest identifies the client of a stream of assignments, and its position. If the present revision is not
// Since, the first line is sent at once.
type WatchRequest struct {
	Host     string
	Sender   Sender   // zero for a client that is not the agent of the host
	Position Position // the newest line that was ever followed
	Since    int64    // revision of the line that the client has; 0: none
	Changes  bool     // lines after the first may be differences; see Assignments.Base
}

// query encodes the request as the query of the stream.
func (w WatchRequest) query() string {
	q := url.Values{"since": {strconv.FormatInt(w.Since, 10)}}
	for name, value := range map[string]string{"instance": w.Sender.Instance, "start": w.Sender.Start,
		"lock_id": w.Sender.LockID, "epoch_id": w.Position.EpochID} {
		if value != "" {
			q.Set(name, value)
		}
	}
	for _, start := range w.Sender.Previous {
		q.Add("previous", start)
	}
	if w.Changes {
		q.Set("changes", "1")
	}
	if w.Position.Epoch != 0 {
		q.Set("epoch", strconv.FormatInt(w.Position.Epoch, 10))
	}
	return q.Encode()
}

// ReadWatchRequest decodes the query of a stream. It returns fault.Invalid with the name of a parameter that is not
// valid.
func ReadWatchRequest(host string, q url.Values) (WatchRequest, error) {
	sender := Sender{Instance: q.Get("instance"), Start: q.Get("start"), Previous: q["previous"],
		LockID: q.Get("lock_id")}
	w := WatchRequest{Host: host, Sender: sender, Position: Position{EpochID: q.Get("epoch_id")},
		Changes: q.Get("changes") == "1"}
	for _, n := range []struct {
		name string
		to   *int64
	}{{"since", &w.Since}, {"epoch", &w.Position.Epoch}} {
		text := q.Get(n.name)
		if text == "" {
			continue
		}
		number, err := strconv.ParseInt(text, 10, 64)
		if err != nil || number < 0 {
			return w, fault.New(fault.Invalid, "%s must be a number of the line that was read last, or 0; it is %q",
				n.name, text[:min(len(text), 64)])
		}
		*n.to = number
	}
	return w, nil
}

// Admit returns nil if this start of an agent may serve a host, and Conflict if another one serves it.
func (c Client) Admit(ctx context.Context, host string, from Sender) error {
	_, resp, err := c.stream(ctx, WatchRequest{Host: host, Sender: from})
	if err == nil {
		resp.Body.Close()
	}
	return err
}

// Watch reads the assignments of a host and calls got with each line, completed, until the context ends, the stream
// breaks or got returns an error. It always returns an error: that of the context if the context has ended, and
// Conflict if another start of an agent serves the host.
func (c Client) Watch(ctx context.Context, w WatchRequest, got func(Assignments) error) error {
	w.Changes = true
	p, resp, err := c.stream(ctx, w)
	if err != nil {
		return err
	}
	p, _, _ = strings.Cut(p, "?")
	defer resp.Body.Close()
	lines := bufio.NewReader(resp.Body)
	var last Assignments
	for {
		line, err := lines.ReadBytes('\n')
		if err != nil {
			if err == io.EOF {
				err = io.ErrUnexpectedEOF
			}
			return fault.New(fault.Unavailable, "the stream of assignments ended: %w", err)
		}
		var a Assignments
		if err := json.Unmarshal(line, &a); err != nil {
			return fault.New(fault.Internal, "a line of assignments is not valid JSON: %w", err)
		}
		var ok bool
		if last, ok = a.After(last); !ok {
			return fault.New(fault.Internal, "a line of assignments is a difference to revision %d, which is not "+
				"that of the line before; the stream is opened again", a.Base)
		}
		if err := got(last); err != nil {
			return err
		}
	}
}

// stream opens the stream of assignments.
func (c Client) stream(ctx context.Context, w WatchRequest) (p string, resp *http.Response, err error) {
	p = path(w.Host, "assignments") + "?" + w.query()
	if resp, err = c.REST.Send(ctx, http.MethodGet, p, nil); err != nil {
		return p, nil, withoutQuery(err)
	}
	return p, resp, answerFault(p, resp)
}

// withoutQuery removes the query from the request of a fault, because the query has the agent's Start.
func withoutQuery(err error) error {
	if e, ok := errors.AsType[*fault.Error](err); ok {
		short := *e
		short.Request, _, _ = strings.Cut(e.Request, "?")
		return &short
	}
	return err
}

// Occupied is the cause of the fault when another start of an agent serves the host, and may have ended.
type Occupied struct {
	Wait time.Duration // retry after this
	Err  error         // compute's answer
}

// Error returns compute's sentence.
func (o *Occupied) Error() string { return fault.TextOf(o.Err) }

// occupied adds the cause *Occupied to a Conflict that has Retry-After. It returns other errors as they are.
func occupied(retryAfter string, err error) error {
	seconds, wrong := strconv.Atoi(retryAfter)
	if !fault.Is(err, fault.Conflict) || wrong != nil || seconds <= 0 {
		return err
	}
	return fault.Wrap(fault.Conflict, &Occupied{Wait: time.Duration(seconds) * time.Second, Err: err})
}

// answerFault returns the fault of an answer, nil for a success. The fault does not have the query, because that has
// the agent's Start.
func answerFault(p string, resp *http.Response) error {
	p, _, _ = strings.Cut(p, "?")
	return occupied(resp.Header.Get("Retry-After"), rest.AnswerFault(http.MethodGet, p, resp))
}
