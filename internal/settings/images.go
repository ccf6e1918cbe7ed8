package settings

import (
	"log/slog"
	"slices"
	"strconv"
	"strings"

	"github.com/openberth/berth/api/identity"
	"github.com/openberth/berth/api/image"
	"github.com/openberth/berth/config"
	"github.com/openberth/berth/fault"
)

const imageGroup = "glance"

// imageOptions are the rows of [glance], with which compute calls the image service, and of Berth's own image service.
func (s *Settings) imageOptions() config.Options {
	web := &s.ImageStore.Web
	return append(s.glanceOptions(),
		config.Text("glance_store", "filesystem_store_datadir", &s.ImageStore.Dir, ""),
		config.Number("DEFAULT", "image_size_cap", &s.ImageStore.MaxSize, 1<<40, 1, 1<<62),
		config.Parsed("DEFAULT", "user_storage_quota", &s.ImageStore.Quota, parseStorageQuota),
		config.Number("berth", "images_per_project", &s.ImageStore.Images, 10000, 0, 1<<31-1),
		config.List("DEFAULT", "enabled_import_methods", &s.ImageStore.Methods, importMethods...),
		config.List(importGroup, "allowed_schemes", &web.Schemes, "http", "https"),
		config.List(importGroup, "disallowed_schemes", &web.NoSchemes),
		config.List(importGroup, "allowed_hosts", &web.Hosts),
		config.List(importGroup, "disallowed_hosts", &web.NoHosts),
		config.List(importGroup, "allowed_ports", &s.raw.importPorts, "80", "443"),
		config.List(importGroup, "disallowed_ports", &s.raw.noImportPorts))
}

// parseStorageQuota parses a number of bytes, or with one of Glance's units of KB, MB, GB and TB: powers of 1024.
func parseStorageQuota(text string) (int64, error) {
	digits := strings.TrimRight(text, "BKMGT")
	shift, known := map[string]uint{"": 0, "B": 0, "KB": 10, "MB": 20, "GB": 30, "TB": 40}[text[len(digits):]]
	n, err := strconv.ParseInt(digits, 10, 64)
	if !known || err != nil || n < 0 || n > 1<<62>>shift {
		return 0, fault.New(fault.Invalid, "%q is not an amount of storage; write a number with B, KB, MB, GB or TB, "+
			"such as 500GB, or 0 for no limit", text)
	}
	return n << shift, nil
}

// importGroup has Glance's options about the URLs that images are imported from.
const importGroup = "import_filtering_opts"

// importMethods are the methods that Berth has.
var importMethods = []string{"glance-direct", "web-download"}

// readImports completes the options of imports. Glance's lists may have brackets, such as [a, b].
func (s *Settings) readImports(cfg *config.Config, _ *slog.Logger) error {
	web := &s.ImageStore.Web
	for _, list := range []*[]string{&s.ImageStore.Methods, &web.Schemes, &web.NoSchemes, &web.Hosts, &web.NoHosts,
		&s.raw.importPorts, &s.raw.noImportPorts} {
		*list = withoutBrackets(*list)
	}
	for _, name := range s.ImageStore.Methods {
		if !slices.Contains(importMethods, name) {
			e, _ := cfg.Get("DEFAULT", "enabled_import_methods")
			return e.Fault("%q is not an import method of Berth; use %s", name, strings.Join(importMethods, " or "))
		}
	}
	for option, list := range map[string]struct {
		from []string
		to   *[]int
	}{
		"allowed_ports": {s.raw.importPorts, &web.Ports}, "disallowed_ports": {s.raw.noImportPorts, &web.NoPorts}} {
		for _, text := range list.from {
			port, err := strconv.Atoi(text)
			if err != nil || port < 1 || port > 65535 {
				e, _ := cfg.Get(importGroup, option)
				return e.Fault("%q is not a port; write numbers from 1 to 65535", text)
			}
			*list.to = append(*list.to, port)
		}
	}
	return nil
}

func withoutBrackets(list []string) (out []string) {
	for _, one := range list {
		if one = strings.Trim(one, "[]'\" "); one != "" {
			out = append(out, one)
		}
	}
	return out
}

func (s *Settings) glanceOptions() config.Options {
	return append(config.Listed(identity.KnownCalls(imageGroup)),
		config.List(imageGroup, "api_servers", &s.Images.Service.Servers),
		config.Number(imageGroup, "num_retries", &s.Images.Service.Retries, 3, 0, 100))
}

// readGlance completes [glance]. Images are not looked up if it is not configured.
func (s *Settings) readGlance(cfg *config.Config, _ *slog.Logger) (err error) {
	i := &s.Images
	for _, o := range slices.Backward(s.glanceOptions()) {
		if e, set := cfg.Get(o.Group, o.Option); set {
			i.At = e.Place()
		}
	}
	if i.At == "" {
		*i = ImageSettings{}
		return nil
	}
	if i.Calls, err = identity.ReadCalls(cfg, imageGroup); err != nil {
		return err
	}
	if i.Calls.Address != "" && len(i.Service.Servers) == 0 { // api_servers has priority, as in Nova
		i.Service.Servers = []string{i.Calls.Address}
	}
	for _, option := range []string{"api_servers", "endpoint_override"} {
		if e, set := cfg.Get(imageGroup, option); set && e.Value != "" {
			if _, err := image.New(image.Options{Servers: i.Service.Servers}); err != nil {
				return e.Fault("%s", fault.TextOf(err))
			}
		}
	}
	return nil
}
