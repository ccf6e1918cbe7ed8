// Package plantest decides by trying everything whether a guest fits on a host, for tests. It shares no code with
// packages plan and numa except their types.
package plantest
