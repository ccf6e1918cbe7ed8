package cloud

import (
	"context"
	"io"
	"net"
	"net/http"
	"time"
)

// guestKey is where the context of a request has its connection.
type guestKey struct{}

// withGuest is http.Server's ConnContext.
func withGuest(ctx context.Context, conn net.Conn) context.Context {
	g, _ := conn.(*guest)
	return context.WithValue(ctx, guestKey{}, g)
}

// paced cuts off clients that send a body, or take their answers, too slowly; and ends streams when stop ends.
func paced(stop context.Context, h http.Handler, may limits) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		ctx, cancel := context.WithCancel(r.Context())
		defer cancel()
		answer := &pacedWriter{ResponseWriter: w, control: http.NewResponseController(w), may: may}
		forget := func() bool { return true }
		answer.stream = func() { forget = context.AfterFunc(stop, cancel) }
		paced := r.WithContext(ctx)
		body := &pacedBody{ReadCloser: r.Body, control: answer.control, may: may, left: may.read}
		body.conn, _ = r.Context().Value(guestKey{}).(*guest)
		if r.Body != http.NoBody {
			paced.Body = body
			body.discard()
		}
		defer func() {
			forget()
			answer.allow(0) // what is still buffered is sent after the handler; net/http takes the deadline away afterwards
			if r.Body != http.NoBody {
				body.discard()
			}
		}()
		h.ServeHTTP(answer, paced)
	})
}

// pacedBody is the body of a request, which gives the client a time for each part of it. A body that arrives too slowly
// ends with os.ErrDeadlineExceeded. Only the time counts in which the server waits for the client.
type pacedBody struct {
	io.ReadCloser
	control *http.ResponseController
	may     limits
	conn    *guest
	left    time.Duration // for the part that arrives now
	got     int           // bytes of this part
	ended   bool          // all of the body has been read
}

// Read implements io.Reader.
func (b *pacedBody) Read(p []byte) (int, error) {
	begun := time.Now()
	b.deadline(begun.Add(b.left))
	b.conn.set(connUpload)
	n, err := b.ReadCloser.Read(p)
	b.conn.set(connActive)
	b.left -= time.Since(begun)
	if b.got += n; b.got >= partBytes {
		b.left, b.got = b.may.read, 0
	}
	if err == io.EOF {
		b.ended = true
		b.deadline(time.Time{}) // net/http goes on reading, to learn that the client goes away; that may take any time
	}
	return n, err
}

// discard gives a time for what is left of the body, which net/http reads when the handler does not, before or after
// the answer.
func (b *pacedBody) discard() {
	if !b.ended {
		b.deadline(time.Now().Add(b.may.read))
	}
}

// deadline sets when a read ends at the latest. A road without deadlines, such as one in memory, has no slow clients.
func (b *pacedBody) deadline(at time.Time) { _ = b.control.SetReadDeadline(at) }

// pacedWriter gives the client a time for each part of an answer.
type pacedWriter struct {
	http.ResponseWriter
	control *http.ResponseController
	may     limits
	stream  func() // is called when the answer turns out to be a stream
}

// allow sets the time for a part of so many bytes. A road without deadlines, such as one in memory, has no slow clients.
func (w *pacedWriter) allow(bytes int) {
	_ = w.control.SetWriteDeadline(time.Now().Add(w.may.grace + time.Duration(bytes)*time.Second/time.Duration(w.may.rate)))
}

// Write implements http.ResponseWriter.
func (w *pacedWriter) Write(part []byte) (int, error) {
	w.allow(len(part))
	return w.ResponseWriter.Write(part)
}

// FlushError is what http.ResponseController's Flush calls.
func (w *pacedWriter) FlushError() error {
	if w.stream != nil {
		w.stream()
		w.stream = nil
	}
	w.allow(0)
	return w.control.Flush()
}

// Flush implements http.Flusher.
func (w *pacedWriter) Flush() { _ = w.FlushError() }

// Unwrap is for http.ResponseController.
func (w *pacedWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }
