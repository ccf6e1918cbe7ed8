// Package address selects IP and MAC addresses: allocation pools, free addresses, overlaps, EUI-64.
//
// Addresses are values of net/netip. The caller gives the addresses that are in use, and randomness as bytes.
package address
