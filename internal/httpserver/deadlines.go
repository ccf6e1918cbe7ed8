package httpserver

import (
	"context"
	"io"
	"net"
	"net/http"
	"time"
)

// guestKey is where the context of a request has its connection.
type connKey struct{}

// withGuest is http.Server's ConnContext.
func withConn(ctx context.Context, conn net.Conn) context.Context {
	g, _ := conn.(*limitedConn)
	return context.WithValue(ctx, connKey{}, g)
}

// paced cuts off clients that send a body, or take their answers, too slowly; and ends streams when stop ends.
func withDeadlines(stop context.Context, h http.Handler, may limits) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		ctx, cancel := context.WithCancel(r.Context())
		defer cancel()
		answer := &deadlineWriter{ResponseWriter: w, control: http.NewResponseController(w), limits: may}
		forget := func() bool { return true }
		answer.onStream = func() { forget = context.AfterFunc(stop, cancel) }
		paced := r.WithContext(ctx)
		body := &deadlineBody{ReadCloser: r.Body, control: answer.control, limits: may, left: may.readTimeout}
		body.conn, _ = r.Context().Value(connKey{}).(*limitedConn)
		if r.Body != http.NoBody {
			paced.Body = body
			body.allowDiscard()
		}
		defer func() {
			forget()
			answer.extendDeadline(0) // what is still buffered is sent after the handler; net/http takes the deadline away afterwards
			if r.Body != http.NoBody {
				body.allowDiscard()
			}
		}()
		h.ServeHTTP(answer, paced)
	})
}

// pacedBody is the body of a request, which gives the client a time for each part of it. A body that arrives too slowly
// ends with os.ErrDeadlineExceeded. Only the time counts in which the server waits for the client.
type deadlineBody struct {
	io.ReadCloser
	control  *http.ResponseController
	limits   limits
	conn     *limitedConn
	left     time.Duration // for the part that arrives now
	received int           // bytes of this part
	ended    bool          // all of the body has been read
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
		b.setDeadline(time.Time{}) // net/http goes on reading, to learn that the client goes away; that may take any time
	}
	return n, err
}

// discard gives a time for what is left of the body, which net/http reads when the handler does not, before or after
// the answer.
func (b *deadlineBody) allowDiscard() {
	if !b.ended {
		b.setDeadline(time.Now().Add(b.limits.readTimeout))
	}
}

// deadline sets when a read ends at the latest. A road without deadlines, such as one in memory, has no slow clients.
func (b *deadlineBody) setDeadline(at time.Time) { _ = b.control.SetReadDeadline(at) }

// pacedWriter gives the client a time for each part of an answer.
type deadlineWriter struct {
	http.ResponseWriter
	control  *http.ResponseController
	limits   limits
	onStream func() // is called when the answer turns out to be a stream
}

// allow sets the time for a part of so many bytes. A road without deadlines, such as one in memory, has no slow clients.
func (w *deadlineWriter) extendDeadline(bytes int) {
	_ = w.control.SetWriteDeadline(time.Now().Add(w.limits.writeGrace + time.Duration(bytes)*time.Second/time.Duration(w.limits.writeRate)))
}

// Write implements http.ResponseWriter.
func (w *deadlineWriter) Write(part []byte) (int, error) {
	w.extendDeadline(len(part))
	return w.ResponseWriter.Write(part)
}

// FlushError is what http.ResponseController's Flush calls.
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

// Unwrap is for http.ResponseController.
func (w *deadlineWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }
