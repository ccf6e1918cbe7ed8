package lifecycle

import "time"

// WithCrashDump returns the server with the entry of a crash dump that was triggered. by is who requested it.
func (s Server) WithCrashDump(by Caller, now time.Time) Server {
	return beginAction(s, addHistory(s, now.UTC(), "crash dump triggered"), "trigger_crash_dump", "", by)
}
