package lifecycle

import "time"

// Lock keeps the users of a server from changing it, until it is unlocked. Administrators are not bound by it.
type Lock struct {
	ByAdmin bool   // an administrator has locked it, not a user of its project
	Reason  string // as given; empty: none
}

// WithLock returns the server locked, or unlocked if lock is nil. by is who requests that, now the time. A lock of its
// project does not replace another one, as in Nova.
func (s Server) WithLock(lock *Lock, by Caller, now time.Time) Server {
	switch {
	case lock == nil && s.Lock == nil, lock != nil && s.Lock != nil && !lock.ByAdmin:
		return s
	case lock == nil:
		after := s
		after.Lock = nil
		return beginAction(s, addHistory(after, now.UTC(), "unlocked"), "unlock", "", by)
	}
	after := s
	after.Lock = lock
	return beginAction(s, addHistory(after, now.UTC(), "locked"+prefixed(": ", lock.Reason)), "lock", "", by)
}
