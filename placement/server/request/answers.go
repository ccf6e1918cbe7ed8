package request

import (
	"encoding/json"
	"iter"
	"net/http"
	"strconv"
	"time"

	"github.com/openberth/berth/api/edge"
	"github.com/openberth/berth/fault"
)

// SetModified sets Last-Modified and Cache-Control, in microversions that have them. The zero time means now.
func (c *Call) SetModified(at time.Time) {
	if c.Microversion < sinceCacheHeaders {
		return
	}
	if at.IsZero() {
		at = c.Service.Now()
	}
	c.W.Header().Set("Last-Modified", at.UTC().Format(http.TimeFormat))
	c.W.Header().Set("Cache-Control", "no-cache")
}

// SetLocation sets the Location header to the created resource. As in the original it is an absolute URL with the host
// of the request.
func (c *Call) SetLocation(path string) { c.W.Header().Set("Location", c.BaseURL()+path) }

// SendJSON answers with a status and a JSON document.
func (c *Call) SendJSON(status int, document any) error {
	data, err := json.Marshal(document)
	if err != nil {
		return fault.Wrap(fault.Internal, err)
	}
	c.send(status, data)
	return nil
}

// send writes a whole answer.
func (c *Call) send(status int, body []byte) {
	h := c.W.Header()
	if body != nil {
		h.Set("Content-Type", edge.JSON)
	}
	if len(body) > 0 {
		h.Set("Content-Length", strconv.Itoa(len(body)))
	}
	c.W.WriteHeader(status)
	if len(body) > 0 {
		// An error means that the client has disconnected.
		_, _ = c.W.Write(body)
	}
}

// ChunkSize is how many bytes of an answer are buffered before they are sent. A smaller answer is sent whole, with its
// Content-Length.
const ChunkSize = 1 << 20

// Stream waits until fewer than maxStreams other answers are larger than a chunk. It returns at once when it has
// returned nil before: an answer counts until its end, so the chunks that are in memory are bounded.
func (c *Call) Stream() error {
	if c.streams {
		return nil
	}
	c.release()
	if err := c.Service.Streams.Acquire(c.Context()); err != nil {
		return err
	}
	c.streams = true
	c.AtEnd(c.Service.Streams.Release)
	return c.reacquire()
}

// SendChunk sends a chunk of a large answer, after which more follows.
func (c *Call) SendChunk(data []byte) error {
	if err := c.Stream(); err != nil {
		return err
	}
	c.release()
	if !c.Begun() {
		c.W.Header().Set("Content-Type", edge.JSON)
		c.W.WriteHeader(http.StatusOK)
	}
	if _, err := c.W.Write(data); err != nil {
		return fault.New(fault.Unavailable, "cannot send the answer to the client: %w", err)
	}
	return c.reacquire()
}

// SendRest sends the last chunks of an answer, or the whole answer if no chunk has been sent. It needs no slot.
func (c *Call) SendRest(chunks ...Buffer) error {
	c.release()
	if !c.Begun() && len(chunks) == 1 {
		c.send(http.StatusOK, chunks[0])
		return nil
	}
	if !c.Begun() {
		length := 0
		for _, chunk := range chunks {
			length += len(chunk)
		}
		c.W.Header().Set("Content-Length", strconv.Itoa(length))
		c.W.Header().Set("Content-Type", edge.JSON)
		c.W.WriteHeader(http.StatusOK)
	}
	for _, chunk := range chunks {
		if _, err := c.W.Write(chunk); err != nil {
			return err
		}
	}
	return nil
}

// SendList answers with an object whose only member is a list of n items.
func (c *Call) SendList(name string, n int, item func(i int) any) error {
	return c.SendItems(name, func(yield func(any, error) bool) {
		for i := range n {
			if !yield(item(i), nil) {
				return
			}
		}
	})
}

// SendItems answers with an object whose only member is a list of items. It sends the list in chunks while it encodes
// the items, because the list may have any length. After the first chunk an error ends the connection.
func (c *Call) SendItems(name string, items iter.Seq2[any, error]) error {
	var out Buffer
	out.Put(`{`)
	out.Quoted(name)
	out.Put(`:[`)
	n := 0
	for item, err := range items {
		if err != nil {
			return err
		}
		out.Comma(n)
		n++
		data, err := json.Marshal(item)
		if err != nil {
			return fault.Wrap(fault.Internal, err)
		}
		if out = append(out, data...); len(out) >= ChunkSize {
			if err := c.SendChunk(out); err != nil {
				return err
			}
			out = out[:0]
		}
	}
	out.Put(`]}`)
	return c.SendRest(out)
}
