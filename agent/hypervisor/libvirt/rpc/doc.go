// Package rpc is the connection of the hypervisor driver to libvirt: github.com/digitalocean/go-libvirt, which encodes
// the calls, and what that lacks: deadlines of calls, events and consoles that a slow reader cannot use to block calls,
// holes of files, and the reason why a connection has ended (docs/design/libvirt.md, decision 30).
//
// The files, from the bottom to the top: errors.go has libvirt's errors; events.go and stream.go are what arrives
// without a call; wire.go filters the messages that go-libvirt reads; client.go makes calls; domains.go, migration.go,
// storage.go and secrets.go have the calls; dial.go and remote.go open a connection.
package rpc
