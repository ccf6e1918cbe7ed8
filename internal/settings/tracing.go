package settings

import (
	"log/slog"
	"os"

	"github.com/openberth/berth/api/trace"
	"github.com/openberth/berth/config"
	"github.com/openberth/berth/fault"
)

// endpointVariable is OpenTelemetry's environment variable for what [berth] otlp_endpoint sets.
const endpointVariable = "OTEL_EXPORTER_OTLP_ENDPOINT"

// readTracing reads the URL of the collector of spans.
func (s *Settings) readTracing(cfg *config.Config, _ *slog.Logger) (err error) {
	s.OTLPEndpoint, err = cfg.String("berth", "otlp_endpoint", os.Getenv(endpointVariable), nil)
	if err != nil || s.OTLPEndpoint == "" {
		return err
	}
	if err := trace.CheckEndpoint(s.OTLPEndpoint); err != nil {
		if e, ok := cfg.Get("berth", "otlp_endpoint"); ok {
			return e.Fault("%s", fault.TextOf(err))
		}
		return fault.New(fault.Invalid, "%s: %s", endpointVariable, fault.TextOf(err))
	}
	return nil
}
