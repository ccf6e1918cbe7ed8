// Package app starts and connects the services: it opens their databases, builds them from their packages and connects
// them over their APIs, in memory or over TCP. `berth up`, `berth demo`, the commands for single services and the tests
// use it.
package app

import "net/http"

// Service is a running service: its API and a function that stops it.
type Service struct {
	Handler http.Handler
	Close   func() error
	Lost    <-chan struct{} // closed when the service cannot continue; Close then returns the reason. nil: never
}
