// Package schedule filters Placement's candidates for a server on their hosts, and orders the accepted ones.
//
// A filter judges a candidate, not a host: two candidates on one host use different devices, and possibly only one of
// them is suitable. A refused candidate yields a Refusal with a reason. Randomness comes from a seed, so the same input
// yields the same result, and two servers scheduled at the same time do not prefer the same device.
//
// The filters, in order: the host (its agent reports, it is not excluded, it is the requested one), the allocations
// (Placement has those of all servers on the host), the devices (Nova's PciPassthroughFilter: what each chosen
// provider, or without providers the host, has free for each request) and the NUMA cells (Nova's NUMATopologyFilter:
// the guest's cells on the host's, with devices near them). Each server is judged independently, on what the reports
// and the guests placed since leave free. Several servers need several calls of Choose.
package schedule
