package server

import (
	"context"
	"errors"
	"log/slog"
	"sync"

	"github.com/openberth/berth/fault"
	"github.com/openberth/berth/image/store"
	"github.com/openberth/berth/image/webdownload"
)

// The names of import methods.
const (
	glanceDirect = "glance-direct"
	webDownload  = "web-download"
)

// How many imports run at once, and how many of one project may wait or run: a slow web server of one project must not
// keep others waiting.
const (
	maxImports        = 16
	maxProjectImports = 4
)

// Imports runs the imports of a store. Each one is recorded in its image, so a restart can end it as failed.
type Imports struct {
	store  *store.Store
	web    webdownload.Client
	limits store.Limits
	log    *slog.Logger

	ctx     context.Context
	stop    context.CancelCauseFunc
	running sync.WaitGroup
	slots   chan struct{} // has an element for each import that runs

	mu    sync.Mutex
	begun map[*begunImport]bool // until they have ended, and a moment longer
}

type begunImport struct {
	image    string
	project  string
	cancel   context.CancelCauseFunc
	ended    chan struct{}
	recorded bool // in its image; Imports.mu is held
}

// NewImports returns the imports of a store. Close ends them.
func NewImports(s *store.Store, web webdownload.Client, limits store.Limits, log *slog.Logger) *Imports {
	ctx, stop := context.WithCancelCause(context.Background())
	return &Imports{store: s, web: web, limits: limits, log: log, ctx: ctx, stop: stop,
		slots: make(chan struct{}, maxImports), begun: map[*begunImport]bool{}}
}

// errStopped ends imports when the service stops.
var errStopped = errors.New("the image service was stopped; import the image again")

// Close ends all imports, and returns when they have ended.
func (m *Imports) Close() {
	m.stop(errStopped)
	m.running.Wait()
}

// begin records an import and begins it. fault.Conflict: the state of the image does not permit it. fault.Unavailable:
// the service stops.
func (m *Imports) begin(id string, imported store.Import) error {
	if context.Cause(m.ctx) != nil {
		return fault.New(fault.Unavailable, "the image service is being stopped; try again")
	}
	ctx, cancel := context.WithCancelCause(m.ctx)
	one := &begunImport{image: id, project: imported.Project, cancel: cancel, ended: make(chan struct{})}
	err := m.admit(one)
	if err == nil {
		if _, err = m.store.BeginImport(id, imported.Method == glanceDirect, imported); err != nil {
			m.forget(one)
		}
	}
	if err != nil {
		cancel(nil)
		return err
	}
	m.mu.Lock()
	one.recorded = true
	m.mu.Unlock()
	m.running.Go(func() {
		defer m.forget(one)
		defer cancel(nil)
		err := m.run(ctx, id, imported)
		m.log.Info("image import ended", "image", id, "method", imported.Method, "error", err)
	})
	return nil
}

// admit counts an import of a project. fault.Conflict: the project has too many.
func (m *Imports) admit(one *begunImport) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	own := map[string]bool{}
	for other := range m.begun {
		if other.project == one.project && other.image != one.image && !m.over(other) {
			own[other.image] = true
		}
	}
	if len(own) >= maxProjectImports {
		return fault.New(fault.Conflict, "the project has %d imports that have not ended; wait for one of them", len(own))
	}
	m.begun[one] = true
	return nil
}

// over reports whether the record of an image says that its import has ended. A client may have seen that already, a
// moment before forget. The caller has the lock.
func (m *Imports) over(one *begunImport) bool {
	image, err := m.store.Get(one.image)
	return one.recorded && (err != nil || image.Status != store.Importing)
}

func (m *Imports) forget(one *begunImport) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.begun, one)
	close(one.ended)
}

// run performs an import when its turn comes.
func (m *Imports) run(ctx context.Context, id string, imported store.Import) error {
	var waited error
	select {
	case m.slots <- struct{}{}:
		defer func() { <-m.slots }()
	case <-ctx.Done():
		waited = fault.Wrap(fault.Unavailable, context.Cause(ctx))
	}
	if imported.Method == glanceDirect {
		_, err := m.store.ImportStaged(id, waited)
		return err
	}
	_, err := m.store.ImportFrom(id, func() (store.Upload, error) {
		if waited != nil {
			return store.Upload{}, waited
		}
		body, size, err := m.web.Open(ctx, imported.URI)
		if err != nil {
			return store.Upload{}, err
		}
		context.AfterFunc(ctx, func() { body.Close() }) // at the latest when the import has ended
		return store.Upload{Data: body, Total: size, Limits: m.limits}, nil
	})
	return err
}

// cancel ends the import of an image that is deleted, and returns when it has ended.
func (m *Imports) cancel(ctx context.Context, id string) {
	m.mu.Lock()
	var ends []*begunImport
	for one := range m.begun {
		if one.image == id {
			one.cancel(fault.New(fault.Unavailable, "the image is deleted"))
			ends = append(ends, one)
		}
	}
	m.mu.Unlock()
	for _, one := range ends {
		select {
		case <-one.ended:
		case <-ctx.Done():
		}
	}
}
