package sqldb

import (
	"context"
	"sync"
	"time"

	"github.com/openberth/berth/fault"
)

// writeCheckTime is the time limit for the write of a WriteCheck.
const writeCheckTime = 30 * time.Second

// WriteCheck checks whether a database accepts writes, by a write that changes nothing (Tx.Touch). At most one is
// running: where writes block, as under MariaDB's FLUSH TABLES WITH READ LOCK, each abandoned one would leave a
// waiting connection in the server.
type WriteCheck struct {
	write func(context.Context) error

	mu       sync.Mutex
	underway chan error // the result of the running write; nil: none is running
}

// NewWriteCheck returns a check that calls write, which must write to the database and return its error.
func NewWriteCheck(write func(context.Context) error) *WriteCheck { return &WriteCheck{write: write} }

// Check returns nil if a write has succeeded. Otherwise it returns a fault Unavailable whose text completes "the
// database takes no writes:" and contains no address, path or user. It waits at most for patience; a write that takes
// longer continues, and the next call waits for it.
func (c *WriteCheck) Check(patience time.Duration) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.underway == nil {
		ended := make(chan error, 1)
		c.underway = ended
		go func() {
			ctx, cancel := context.WithTimeout(context.Background(), writeCheckTime)
			defer cancel()
			ended <- c.write(ctx)
		}()
	}
	wait := time.NewTimer(patience)
	defer wait.Stop()
	select {
	case err := <-c.underway:
		c.underway = nil
		if err == nil {
			return nil
		}
		return &fault.Error{Kind: fault.Unavailable, Msg: whyNoWrite(err), Err: err}
	case <-wait.C:
		return fault.New(fault.Unavailable, "none ends in time; the database is stalled, "+
			"or a lock blocks all writes")
	}
}

// whyNoWrite returns the cause of a failed write as a text that any client may read.
func whyNoWrite(err error) string {
	switch causeOf(err) {
	case diskFull:
		return "its disk is full"
	case readOnly:
		return "it is read-only"
	case noRights:
		return "Berth's user has no rights to write"
	case damaged:
		return "its file is damaged"
	case diskFails:
		return "its disk fails"
	}
	if IsRetryable(err) {
		return "another client holds a lock"
	}
	return "they fail; the log has the reason"
}

// Touch writes to every row of a small table and restores the rows, so that its transaction fails if no other can
// write. column holds short texts with room for one more character. SQLite and MariaDB write nothing for an UPDATE
// without a change, so Touch changes the rows and changes them back.
func (tx *Tx) Touch(ctx context.Context, table, column string) error {
	statements := []string{"UPDATE " + table + " SET " + column + " = CONCAT(" + column + ", '+')",
		"UPDATE " + table + " SET " + column + " = SUBSTR(" + column + ", 1, LENGTH(" + column + ") - 1)"}
	if tx.Dialect == PostgreSQL {
		statements = []string{"UPDATE " + table + " SET " + column + " = " + column}
	}
	for _, statement := range statements {
		if _, err := tx.Exec(ctx, statement); err != nil {
			return err
		}
	}
	return nil
}
