package catalog

import "github.com/openberth/berth/compute/server/request"

// Routes returns the paths of the package.
func Routes(s *Handlers) request.Routes {
	return request.Join(flavorRoutes(s), flavorAccessRoutes(s), extraSpecRoutes(s), keyPairRoutes(s), quotaRoutes(s),
		usageRoutes(s), serverGroupRoutes(s), imageProxyRoutes(imageProxies{s.Images}))
}
