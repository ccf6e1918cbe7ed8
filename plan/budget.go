package plan

// Limits of the work for one guest on one host, in steps of a few nanoseconds. A search that needs more ends undecided.
const (
	// MaxWork is the limit of Make: a fraction of a second. Hosts of realistic sizes need less than a tenth of it.
	MaxWork = 1 << 27
	// QuickWork is enough to decide nearly all cases: some milliseconds.
	QuickWork = 1 << 22
)

// budget is the work that a search may still do. The budget limits memory, too: what a search keeps is proportional to
// its work. After the budget is spent an assignment may lack devices that are there; so a solution is valid, but that
// there is none is not decided.
type budget struct{ left int }

// reasons returns the budget for the reason of a refusal that is decided.
func reasons() *budget { return &budget{QuickWork} }

// spend uses up work.
func (b *budget) spend(work int) { b.left -= work }

// spent reports whether the budget is used up.
func (b *budget) spent() bool { return b.left < 0 }
