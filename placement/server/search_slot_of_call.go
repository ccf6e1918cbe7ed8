package server

// limited wraps a handler that searches, or reads much: it runs while it holds a slot of Server.searches.
func limited(handle func(*call) error) func(*call) error {
	return func(c *call) error {
		done := c.server.metrics.Wait()
		err := c.server.searches.acquire(c.Context())
		done()
		if err != nil {
			return err
		}
		c.holdsSlot = true
		defer c.release()
		return handle(c)
	}
}

// release returns the slot of the call, if it holds one. It is called before waiting for the client.
func (c *call) release() {
	if c.holdsSlot {
		c.holdsSlot = false
		c.server.searches.release()
	}
}

// reacquire waits for a slot again.
func (c *call) reacquire() error {
	err := c.server.searches.acquire(c.Context())
	c.holdsSlot = err == nil
	return err
}
