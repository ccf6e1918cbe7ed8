package server

import (
	"encoding/json"
	"net/http"

	"github.com/openberth/berth/fault"
)

// chunkSize is how much of an answer, in bytes, is kept before it is sent. An answer that is smaller is sent at once, with its length.
const chunkSize = 1 << 20

// sendChunk sends a part of a large answer; more is to come. Only so many large answers are on their way at once.
func (c *call) sendChunk(data []byte) error {
	c.release()
	if c.status == 0 {
		if err := c.server.streams.acquire(c.ctx()); err != nil {
			return err
		}
		c.cleanups = append(c.cleanups, c.server.streams.release)
		c.begin(http.StatusOK, true)
	}
	if err := c.write(data); err != nil {
		return fault.New(fault.Unavailable, "placement.server", "the client takes no more of the answer: %w", err)
	}
	return c.reacquire()
}

// sendRest sends the last part of an answer, or all of it.
func (c *call) sendRest(data []byte) error {
	c.release()
	if c.status == 0 {
		c.send(http.StatusOK, data)
		return nil
	}
	return c.write(data)
}

// sendList answers with a document that has one list, under a name. It is written as it is sent, for it may be of any length.
func (c *call) sendList(name string, n int, item func(i int) any) error {
	var out jsonBuffer
	out.put(`{`)
	out.quoted(name)
	out.put(`:[`)
	for i := range n {
		out.comma(i)
		data, err := json.Marshal(item(i))
		if err != nil {
			return fault.Wrap(fault.Internal, "placement.server", err)
		}
		if out = append(out, data...); len(out) >= chunkSize {
			if err := c.sendChunk(out); err != nil {
				return err
			}
			out = out[:0]
		}
	}
	out.put(`]}`)
	return c.sendRest(out)
}
