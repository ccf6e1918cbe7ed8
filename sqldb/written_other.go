//go:build !linux

package sqldb

import "context"

// Written returns at once: only Linux has inotify.
func (db *DB) Written(context.Context, func()) {}
