package settings

import (
	"log/slog"
	"strconv"
	"strings"

	"github.com/openberth/berth/compute/quota"
	"github.com/openberth/berth/config"
	"github.com/openberth/berth/fault"
)

// QuotaSettings are the options of [quota]: limits of projects and users of compute.
type QuotaSettings struct {
	Driver string        // driver: one of the constants below
	Limits quota.Amounts // instances, cores and so on, and resource_classes
}

// The drivers of [quota] driver.
const (
	QuotasInDatabase = "nova.quota.DbQuotaDriver"
	NoQuotas         = "nova.quota.NoopQuotaDriver"
)

// quotaOption returns the option of a quota, which has its name, with one exception in Nova.
func quotaOption(name string) string {
	if name == quota.InjectedPathBytes {
		return "injected_file_path_length"
	}
	return name
}

// computeQuotaOptions are the rows of QuotaSettings.
func (s *Settings) computeQuotaOptions() config.Options {
	q := &s.Quota
	s.raw.computeQuotas = map[string]*int{}
	table := config.Options{
		config.Text("quota", "driver", &q.Driver, QuotasInDatabase, QuotasInDatabase, NoQuotas),
		config.ParsedList("quota", "resource_classes", &s.raw.classQuotas, parseClassLimits),
	}
	for name, usual := range quota.Defaults() {
		limit := new(int)
		s.raw.computeQuotas[name] = limit
		table = append(table, config.Number("quota", quotaOption(name), limit, usual, quota.Unlimited, quota.Most))
	}
	return table
}

// checkQuota completes QuotaSettings.
func (s *Settings) checkQuota(*config.Config, *slog.Logger) error {
	s.Quota.Limits = quota.Amounts{}
	for name, limit := range s.raw.computeQuotas {
		s.Quota.Limits[name] = *limit
	}
	s.Quota.Limits = s.Quota.Limits.With(s.raw.classQuotas)
	if s.Quota.Driver == NoQuotas {
		s.Quota.Limits = nil
	}
	return nil
}

// parseClassLimits parses elements CLASS:LIMIT.
func parseClassLimits(elements []string) (quota.Amounts, error) {
	limits := quota.Amounts{}
	for _, element := range elements {
		class, text, _ := strings.Cut(element, ":")
		limit, err := strconv.Atoi(text)
		if !quota.IsClass(class) || err != nil || limit < quota.Unlimited || limit > quota.Most {
			return nil, fault.New(fault.Invalid, "%q is not CLASS:LIMIT; write a resource class such as VGPU or CUSTOM_FPGA, "+
				"a colon and a number from 0, or -1 for no limit; separate several by commas", element)
		}
		limits[quota.ClassPrefix+class] = limit
	}
	return limits, nil
}
