// Package rpc is a client of libvirt's remote procedure calls over a Unix socket: the calls, events and console streams
// that the hypervisor driver needs.
//
// The messages are those of virnetprotocol.x and remote_protocol.x of libvirt: a length, a header of six words and the
// payload in XDR (RFC 4506). libvirt keeps the numbers and layouts of existing procedures, because old clients must
// work with new daemons.
//
// The files, from the bottom to the top: xdr.go encodes and decodes; procedures.go and message.go have the numbers, the
// header and the errors; domain_events.go and stream.go are what arrives without a call; client.go sends calls and
// distributes what arrives; domains.go has the calls; dial.go opens a connection.
package rpc
