package httpserver

import (
	"context"
	"io"
	"net"
	"net/http"
	"time"
)

// connKey is the key of the connection in the context of a request.
type connKey struct{}

// withConn adds the connection to the context of its requests; it is http.Server.ConnContext.
func withConn(ctx context.Context, conn net.Conn) context.Context {
	return context.WithValue(ctx, connKey{}, limitedConnOf(conn))
}

// withDeadlines fails reads and writes of clients that send a body, or receive a response, too slowly. It ends streams
// when stop ends.
func withDeadlines(stop context.Context, h http.Handler, lim limits) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		ctx, cancel := context.WithCancel(r.Context())
		defer cancel()
		writer := &deadlineWriter{ResponseWriter: w, control: http.NewResponseController(w), limits: lim}
		unregister := func() bool { return true }
		writer.onStream = func() { unregister = context.AfterFunc(stop, cancel) }
		limited := r.WithContext(ctx)
		body := &deadlineBody{ReadCloser: r.Body, control: writer.control, limits: lim, left: lim.readTimeout}
		body.conn, _ = r.Context().Value(connKey{}).(*limitedConn)
		if r.Body != http.NoBody {
			limited.Body = body
			body.allowDiscard()
		}
		defer func() {
			unregister()
			writer.extendDeadline(0) // for buffered data, which is sent after the handler; net/http then clears the deadline
			if r.Body != http.NoBody {
				body.allowDiscard()
			}
		}()
		h.ServeHTTP(writer, limited)
	})
}

// deadlineBody is the body of a request with a time limit for each chunkBytes. Read returns os.ErrDeadlineExceeded if
// the body arrives too slowly. Only the time counts in which the server waits for the client.
type deadlineBody struct {
	io.ReadCloser
	control  *http.ResponseController
	limits   limits
	conn     *limitedConn
	left     time.Duration // for the current chunk
	received int           // bytes of the current chunk
	ended    bool          // the whole body has been read
}

// Read implements io.Reader.
func (b *deadlineBody) Read(p []byte) (int, error) {
	begun := time.Now()
	b.setDeadline(begun.Add(b.left))
	b.conn.setState(connUpload)
	n, err := b.ReadCloser.Read(p)
	b.conn.setState(connActive)
	b.left -= time.Since(begun)
	if b.received += n; b.received >= chunkBytes {
		b.left, b.received = b.limits.readTimeout, 0
	}
	if err == io.EOF {
		b.ended = true
		b.setDeadline(time.Time{}) // net/http keeps reading to detect that the client disconnects; this has no time limit
	}
	return n, err
}

// allowDiscard sets the deadline for the rest of the body. If the handler does not read it, net/http does, before or
// after the response.
func (b *deadlineBody) allowDiscard() {
	if !b.ended {
		b.setDeadline(time.Now().Add(b.limits.readTimeout))
	}
}

// setDeadline sets the deadline for reads. It ignores errors: a transport without deadlines, such as one in memory, has
// no slow clients.
func (b *deadlineBody) setDeadline(at time.Time) { _ = b.control.SetReadDeadline(at) }

// deadlineWriter sets a deadline for each write of a response.
type deadlineWriter struct {
	http.ResponseWriter
	control  *http.ResponseController
	limits   limits
	onStream func() // called at the first flush, which makes the response a stream
}

// extendDeadline sets the deadline for a write of this many bytes. It ignores errors; see deadlineBody.setDeadline.
func (w *deadlineWriter) extendDeadline(bytes int) {
	allowed := w.limits.writeGrace + time.Duration(bytes)*time.Second/time.Duration(w.limits.writeRate)
	_ = w.control.SetWriteDeadline(time.Now().Add(allowed))
}

// Write implements http.ResponseWriter.
func (w *deadlineWriter) Write(data []byte) (int, error) {
	w.extendDeadline(len(data))
	return w.ResponseWriter.Write(data)
}

// FlushError sends buffered data; http.ResponseController.Flush calls it.
func (w *deadlineWriter) FlushError() error {
	if w.onStream != nil {
		w.onStream()
		w.onStream = nil
	}
	w.extendDeadline(0)
	return w.control.Flush()
}

// Flush implements http.Flusher.
func (w *deadlineWriter) Flush() { _ = w.FlushError() }

// Unwrap returns the wrapped writer, for http.ResponseController.
func (w *deadlineWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }
