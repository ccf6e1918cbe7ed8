package app

import (
	"net/http"
	"sync/atomic"
)

// lateHandler serves with a handler that is set later. It responds with 503 while there is none. The network service
// starts before compute, and reports events to it.
type lateHandler struct{ next atomic.Pointer[http.Handler] }

// set sets the handler; nil: none.
func (h *lateHandler) set(next http.Handler) {
	if next == nil {
		h.next.Store(nil)
		return
	}
	h.next.Store(&next)
}

// ServeHTTP implements http.Handler.
func (h *lateHandler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	next := h.next.Load()
	if next == nil {
		http.Error(w, "the service is not started", http.StatusServiceUnavailable)
		return
	}
	(*next).ServeHTTP(w, r)
}
