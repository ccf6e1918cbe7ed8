// Package host is the contract between the agent of a host and compute: reports to compute, assignments to the agent,
// and the phases of each guest.
//
// The agent opens every connection; a host listens on no port. It sends
//
//	PUT  /berth/v1/hosts/{host}                        Report
//	GET  /berth/v1/hosts/{host}/assignments?…          a stream of Assignments, one JSON object a line; see WatchRequest
//	PUT  /berth/v1/hosts/{host}/guests/{server}        Guest
//	GET  /berth/v1/hosts/{host}/guests/{server}        FirstBoot
//
// Users and other programs send
//
//	GET  /berth/v1/hosts                               {"hosts": [Report…]}
//	GET  /berth/v1/devices                             {"devices": [Device…]}
//	POST /berth/v1/hosts/{host}/devices/{address}/clean    requests that the device is cleaned
//	PUT /berth/v1/hosts/{host}/devices/{address}/disabled     DisableDevice → DisabledDevice: takes it out of service
//	DELETE /berth/v1/hosts/{host}/devices/{address}/disabled  puts it back into service
//	DELETE /berth/v1/hosts/{host}                      Forgotten: removes a host that will never return
//	GET  /berth/v1/hosts/{host}/allocations            Allocations: how Placement differs from compute's records
//	POST /berth/v1/hosts/{host}/allocations            Heal → Allocations: adds what Placement lacks
//	POST /berth/v1/ports/heal                          HealPorts → HealedPorts: allocations of bound ports
//	PUT  /berth/v1/differences                         FoundDifferences: what a periodic audit has found on hosts
//
// The agent receives no commands. A line of assignments is the complete desired state of the host at a revision, so
// that lost lines do no harm. To a client that asks for changes, lines after the first of a stream are differences to
// the line before, because a host may have many servers; Client.Watch completes them. The line is repeated as a
// heartbeat at least every Heartbeat, so that the agent notices a dead connection.
//
// A guest is destroyed only if a line names it in Remove. The absence of a guest from a line means nothing: compute's
// database may have been restored from a backup or replaced. In the same way, a disabled device is enabled only
// if a line names the disablement in EnableDevices.
//
// One start of one agent serves a host. Each start of an agent draws a random Start and sends it with every request.
// Compute admits one start and answers others with 409 while that one is alive: while it has an open stream, or has
// sent a report within three minutes. A start that continues the journal of the admitted one on the same boot of the
// same machine replaces it at once, because the journal's lock proves that the earlier process has ended. On another
// boot it waits until the earlier start had time to reconnect. A 409 that a later try can lift has the header
// Retry-After.
package host
