package trace

import (
	"context"
	"encoding/hex"
	"log/slog"
)

// Log returns a log that adds trace_id and span_id to records that are written with the context of a traced request.
func Log(log *slog.Logger) *slog.Logger { return slog.New(logHandler{log.Handler()}) }

type logHandler struct{ slog.Handler }

// Handle implements slog.Handler.
func (h logHandler) Handle(ctx context.Context, record slog.Record) error {
	if s := spanOf(ctx); s != nil {
		record = record.Clone()
		record.AddAttrs(slog.String("trace_id", hex.EncodeToString(s.TraceID[:])),
			slog.String("span_id", hex.EncodeToString(s.SpanID[:])))
	}
	return h.Handler.Handle(ctx, record)
}

// WithAttrs implements slog.Handler.
func (h logHandler) WithAttrs(attrs []slog.Attr) slog.Handler {
	return logHandler{h.Handler.WithAttrs(attrs)}
}

// WithGroup implements slog.Handler.
func (h logHandler) WithGroup(name string) slog.Handler { return logHandler{h.Handler.WithGroup(name)} }
