package cloud

import (
	"context"
	"net/http"
	"time"
)

// paced cuts off clients that do not take their answers, and ends streams when stop ends.
func paced(stop context.Context, h http.Handler, may limits) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		ctx, cancel := context.WithCancel(r.Context())
		defer cancel()
		answer := &pacedWriter{ResponseWriter: w, control: http.NewResponseController(w), may: may}
		forget := func() bool { return true }
		answer.stream = func() { forget = context.AfterFunc(stop, cancel) }
		defer func() {
			forget()
			answer.allow(0) // what is still buffered is sent after the handler; net/http takes the deadline away afterwards
		}()
		h.ServeHTTP(answer, r.WithContext(ctx))
	})
}

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
