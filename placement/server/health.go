package server

import (
	"context"
	"fmt"
	"time"

	"github.com/openberth/berth/api/edge"
	"github.com/openberth/berth/placement/metrics"
)

// healthDoc is the body of /healthz.
type healthDoc struct {
	edge.HealthDoc
	Index struct {
		Trees     int `json:"trees"`
		Providers int `json:"providers"`
		Age       int `json:"age_seconds"`
	} `json:"index"`
}

// describeHealth adds the state of the index to the answer of /healthz.
func (s *Server) describeHealth(d edge.HealthDoc) any {
	state, answer := s.indexState(), healthDoc{HealthDoc: d}
	answer.Index.Trees, answer.Index.Providers, answer.Index.Age = state.Trees, state.Providers,
		int(state.Age.Seconds())
	return answer
}

// checkHealth determines whether clients can use this server: the database answers and accepts writes, and the index is
// not older than Options.MaxIndexAge. It returns the reason to publish, empty if the server is healthy, and its cause
// for the log.
func (s *Server) checkHealth(ctx context.Context) (reason string, cause error) {
	read := func(ctx context.Context) error {
		_, err := s.service.Store.Version(ctx)
		return err
	}
	if reason, cause = edge.CheckDatabase(ctx, s.database, read); reason != "" {
		return reason, cause
	}
	if state := s.indexState(); s.opts.MaxIndexAge > 0 && state.Age > s.opts.MaxIndexAge {
		return fmt.Sprintf("The index is %s old, more than the limit of %s.", state.Age.Round(time.Second),
			s.opts.MaxIndexAge), nil
	}
	return "", nil
}

// indexState returns the current state of the index for the metrics.
func (s *Server) indexState() metrics.Index {
	snapshot := s.service.Index.Snapshot()
	return metrics.Index{Trees: snapshot.Len(), Providers: snapshot.Providers(),
		Age: s.service.Now().Sub(*s.verifiedAt.Load()),
		Lag: s.service.Index.Lag()}
}
