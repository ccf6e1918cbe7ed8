package operations

import (
	"sync"

	api "github.com/openberth/berth/api/network"
)

// hostAnswers keeps the last answer for each host, because agents ask every few seconds and mostly nothing has changed.
type hostAnswers struct {
	mu     sync.Mutex
	byHost map[string]hostAnswer
}

// hostAnswer is an answer, and the mark of the database that it was read from.
type hostAnswer struct {
	mark string
	all  api.HostNetworks
}

// maxAnswers is how many hosts have an answer kept; a larger cloud begins again when it is reached.
const maxAnswers = 500

// get returns the answer for a host, if nothing has changed since.
func (h *hostAnswers) get(host, mark string) (api.HostNetworks, bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	one, has := h.byHost[host]
	return one.all, has && one.mark == mark
}

func (h *hostAnswers) put(host, mark string, all api.HostNetworks) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if len(h.byHost) >= maxAnswers || h.byHost == nil {
		h.byHost = map[string]hostAnswer{}
	}
	h.byHost[host] = hostAnswer{mark, all}
}
