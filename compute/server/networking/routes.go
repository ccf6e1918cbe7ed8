package networking

import (
	"github.com/openberth/berth/compute/server/request"
)

// Routes returns the paths of the package.
func Routes(s *Handlers) request.Routes {
	return request.Join(interfaceRoutes(s), addressRoutes(s), securityGroupRoutes(s), groupProxyRoutes(newProxies(s)),
		networkProxyRoutes(newProxies(s)), eventRoutes(s), guaranteeRoutes(s))
}
