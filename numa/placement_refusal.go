package numa

// Refusal is the reason why a guest does not fit on a host; the zero value means that it fits.
type Refusal struct {
	// the same for all hosts with the same shortfall, such as "no NUMA node has 4 threads for dedicated CPUs left"
	Reason  string
	Nearest string  // the nearest match on this host, such as "node 1 has 3"
	Miss    float64 // the distance from a fit: the host with the smallest value is the nearest miss
}

// refused reports whether there is a refusal.
func (r Refusal) refused() bool { return r.Reason != "" }

// shortfall is what one host cell lacks for one guest cell: Reason after "has", Nearest after "node N".
type shortfall struct {
	wants, has string
	distance   float64 // number of checks not passed, and the missing share in the failed one
}

// The checks of a cell in their order; a cell that failed at a later check was nearer.
const (
	memoryCheck = iota
	dedicatedCheck
	threadsCheck
	sharedCheck
	checks
)

// lacking returns the shortfall of a check that needs want and has has; wants and hasText are the same as text.
func lacking(check int, has, want float64, wants, hasText string) *shortfall {
	share := 1.0
	if want > 0 {
		share = min(max(1-has/want, 0), 1)
	}
	return &shortfall{wants: wants, has: hasText, distance: float64(checks-1-check) + share}
}
