package servers

import "github.com/openberth/berth/compute/server/request"

// Routes returns the paths of the package.
func Routes(s *Handlers) request.Routes {
	return request.Join(serverRoutes(s), whyRoutes(s), metadataRoutes(s), tagRoutes(s), topologyRoutes(s),
		shareRoutes(s), passwordRoutes(s), volumeRoutes(s))
}
