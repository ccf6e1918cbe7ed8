package httpserver

import (
	"log/slog"
	"strings"
	"sync"
	"time"
)

// connectionErrors is the writer of http.Server.ErrorLog. It logs failed TLS handshakes as warnings at most once per
// warnInterval, and the others at debug level, because every program that opens a connection can cause one.
type connectionErrors struct {
	log *slog.Logger

	mu   sync.Mutex
	last time.Time // when a failed handshake was last logged as a warning
}

// Write implements io.Writer for log.Logger. line is one message.
func (c *connectionErrors) Write(line []byte) (int, error) {
	text := strings.TrimSpace(string(line))
	failed, ok := strings.CutPrefix(text, "http: TLS handshake error from ")
	if !ok {
		c.log.Warn(text)
		return len(line), nil
	}
	client, reason, _ := strings.Cut(failed, ": ")
	write := c.log.Debug
	c.mu.Lock()
	if now := time.Now(); now.Sub(c.last) >= warnInterval {
		c.last, write = now, c.log.Warn
	}
	c.mu.Unlock()
	write("TLS handshake failed", "client", client, "reason", reason)
	return len(line), nil
}
