// Package nova starts OpenStack's own compute service for tests: the API, the conductor, the scheduler and two hosts
// with the fake driver of Debian's packages, on MariaDB and RabbitMQ, behind a Keystone and with Berth as its
// Placement; gone when the test ends. With the build tag nova (`make nova`) its tests compare what Nova claims in
// Placement with what servers have, write damage that `berth audit` must find and heal, and follow the guide's page for
// clouds with Nova.
package nova
