// Package resources has the handlers of the resources of the Networking API, and of the API for Berth's own agents.
// Each resource has its file, with its attributes, its handlers and its views. Handlers decide nothing about networks
// and ports: package operations does.
package resources

import "github.com/openberth/berth/network/server/request"

// handlers are the handlers of networks, subnets, segments, ports, QoS policies and agents. Other resources have types
// of their own.
type handlers struct{ *request.Service }
