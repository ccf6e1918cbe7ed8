// Package neutron starts OpenStack's own network service for tests: Debian's package neutron-server with ML2 on
// 127.0.0.1, with MariaDB and RabbitMQ, behind a Keystone and in front of Berth's Placement; gone when the test ends.
// No agent of Neutron runs: a program sends the heartbeats of agents. With the build tag neutron (`make neutron`) its
// tests compare what Neutron reports to Placement with package bandwidth, and use Neutron by the client of api/network.
package neutron
