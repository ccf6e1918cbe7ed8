package settings

import (
	"log/slog"
	"strconv"
	"strings"

	"github.com/openberth/berth/api/identity"
	"github.com/openberth/berth/api/limits"
	"github.com/openberth/berth/compute/quota"
	"github.com/openberth/berth/config"
	"github.com/openberth/berth/fault"
)

// QuotaSettings are the options of [quota]: limits of projects and users of compute.
type QuotaSettings struct {
	Driver string        // driver: one of the constants below
	Limits quota.Amounts // instances, cores and so on, and resource_classes

	Required []string              // unified_limits_resource_list: resources whose missing limit is 0
	Service  limits.Service        // [oslo_limit] endpoint_id and its neighbours, for UnifiedLimits
	Keystone identity.ServiceCalls // [oslo_limit]: the account that reads limits
}

// The drivers of [quota] driver.
const (
	QuotasInDatabase = "nova.quota.DbQuotaDriver"
	NoQuotas         = "nova.quota.NoopQuotaDriver"
	UnifiedLimits    = "nova.quota.UnifiedLimitsDriver"
)

// limitGroup has the options of oslo.limit.
const limitGroup = "oslo_limit"

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
	table := append(config.Listed(identity.KnownCalls(limitGroup)),
		config.Text("quota", "driver", &q.Driver, QuotasInDatabase, QuotasInDatabase, NoQuotas, UnifiedLimits),
		config.Text("quota", "unified_limits_resource_strategy", new(string), "require", "require"),
		config.List("quota", "unified_limits_resource_list", &q.Required, "servers"),
		config.Text(limitGroup, "endpoint_id", &q.Service.Endpoint, ""),
		config.Text(limitGroup, "endpoint_service_type", &q.Service.Type, ""),
		config.Text(limitGroup, "endpoint_service_name", &q.Service.Name, ""),
		config.Text(limitGroup, "endpoint_region_name", &q.Service.Region, ""),
		config.ParsedList("quota", "resource_classes", &s.raw.classQuotas, parseClassLimits))
	for name, usual := range quota.Defaults() {
		limit := new(int)
		s.raw.computeQuotas[name] = limit
		table = append(table, config.Number("quota", quotaOption(name), limit, usual, quota.Unlimited, quota.Most))
	}
	return table
}

// checkQuota completes QuotaSettings.
func (s *Settings) checkQuota(cfg *config.Config, _ *slog.Logger) (err error) {
	s.Quota.Limits = quota.Amounts{}
	for name, limit := range s.raw.computeQuotas {
		s.Quota.Limits[name] = *limit
	}
	s.Quota.Limits = s.Quota.Limits.With(s.raw.classQuotas)
	if s.Quota.Driver == NoQuotas {
		s.Quota.Limits = nil
	}
	if s.Quota.Driver != UnifiedLimits {
		return nil
	}
	if s.Quota.Keystone, err = identity.ReadCalls(cfg, limitGroup); err != nil {
		return err
	}
	e, _ := cfg.Get("quota", "driver")
	switch of := s.Quota.Service; {
	case s.Quota.Keystone.Type != identity.KeystoneAccount:
		return e.Fault("%s reads limits from Keystone; write [oslo_limit] auth_type = password and its options",
			UnifiedLimits)
	case of.Endpoint == "" && of.Type == "" && of.Name == "":
		return e.Fault("%s needs the service whose limits apply; write [oslo_limit] endpoint_id, or endpoint_service_type "+
			"or endpoint_service_name", UnifiedLimits)
	}
	return nil
}

// parseClassLimits parses elements CLASS:LIMIT.
func parseClassLimits(elements []string) (quota.Amounts, error) {
	found := quota.Amounts{}
	for _, element := range elements {
		class, text, _ := strings.Cut(element, ":")
		limit, err := strconv.Atoi(text)
		if !quota.IsClass(class) || err != nil || limit < quota.Unlimited || limit > quota.Most {
			return nil, fault.New(fault.Invalid, "%q is not CLASS:LIMIT; write a resource class such as VGPU or CUSTOM_FPGA, "+
				"a colon and a number from 0, or -1 for no limit; separate several by commas", element)
		}
		found[quota.ClassPrefix+class] = limit
	}
	return found, nil
}
