package servers

import "github.com/openberth/berth/compute/server/request"

// Routes returns the paths of the package.
func Routes(s *Handlers) request.Routes {
	return request.Join(serverRoutes(s), actionRoutes(s), whyRoutes(s), migrationRoutes(s), metadataRoutes(s),
		tagRoutes(s), instanceActionRoutes(s), interfaceRoutes(s), addressRoutes(s), volumeRoutes(s), securityGroupRoutes(s),
		groupProxyRoutes(newProxies(s)), networkProxyRoutes(newProxies(s)),
		imageProxyRoutes(imageProxies{s.Images}),
		eventRoutes(s), guaranteeRoutes(s), topologyRoutes(s), shareRoutes(s), passwordRoutes(s))
}
