//go:build !linux

package sqldb

import "time"

// setUserTimeout does nothing: only Linux has the option.
func setUserTimeout(uintptr, time.Duration) error { return nil }
