package sqldb

import (
	"context"
	"crypto/sha256"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/openberth/berth/backoff"
)

const (
	maxGates    = 8                      // clients that notify on one channel
	gateOpen    = 100 * time.Millisecond // how long a gate is open, and a text is in the list of processes
	gateTimeout = 5 * time.Second        // for the statement that opens a gate
	gateCheck   = time.Second            // between two looks at which gates are in use
	gatesMissed = 10                     // a gate that was open without a text as often as that has no client
)

// gates are the notifier of MariaDB and MySQL, which have nothing like NOTIFY. They use named locks (GET_LOCK), which
// exist in memory only, and the server's list of processes, in which a user sees the statements of his own connections.
//
// Each client that listens holds one lock, its gate, on a connection of its own. To notify, it executes one statement
// there that releases the lock, sleeps for gateOpen, and takes the lock again; a comment at its end has the text. The
// other clients wait for the locks of all gates that are in use, and read the text from the list of processes as soon
// as they get one. A wait takes and releases the lock in one statement, so no client can keep the lock of another.
// While nothing is sent, a client costs the server one statement a second for itself and one for each other client.
//
// The locks of a Galera cluster are those of one node, so only clients on the same node receive a text.
type gates struct {
	db       *DB
	database string

	mu     sync.Mutex // of the statements on own
	own    *sql.Conn  // holds the lock; nil: does not listen
	name   string     // of the lock
	others bool       // whether other clients listen
	sent   int        // number of the last text
}

// gate returns the name of a lock. Locks belong to the whole server and their names have at most 64 characters, so a
// hash of the database is a part of the name.
func (g *gates) gate(channel string, n int) string {
	sum := sha256.Sum256([]byte(g.database))
	return fmt.Sprintf("%.40s.%x.%d", channel, sum[:8], n)
}

// opens is the beginning of the statement that notifies.
func opens(gate string) string { return "SELECT RELEASE_LOCK('" + gate + "')," }

func (g *gates) notify(ctx context.Context, _, text string) error {
	if strings.Contains(text, "*/") {
		return errors.New(`a notification contains "*/"`)
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.own == nil || !g.others {
		return nil
	}
	var released, slept, taken sql.NullInt64
	// A statement that is cancelled ends the connection, and all would have to find another gate.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), gateTimeout)
	defer cancel()
	g.sent++
	err := g.own.QueryRowContext(ctx, fmt.Sprintf("%s SLEEP(%g), GET_LOCK('%s', 1) /* %d %s */", opens(g.name),
		gateOpen.Seconds(), g.name, g.sent, text)).Scan(&released, &slept, &taken)
	if err == nil && taken.Int64 != 1 {
		err = errors.New("the lock for notifications was not taken again")
	}
	if err != nil {
		g.leave()
	}
	return err
}

// leave closes the connection of the gate, which releases its lock. g.mu is locked.
func (g *gates) leave() {
	_ = g.own.Raw(func(any) error { return driver.ErrBadConn }) // the pool must not keep the connection
	_ = g.own.Close()
	g.own = nil
}

func (g *gates) listen(ctx context.Context, channel string, listening func(), each func(text string)) error {
	if err := g.take(ctx, channel); err != nil {
		return err
	}
	ctx, stop := context.WithCancelCause(ctx)
	var waiting sync.WaitGroup
	defer func() {
		stop(nil)
		waiting.Wait()
		g.mu.Lock()
		defer g.mu.Unlock()
		if g.own != nil {
			g.leave()
		}
	}()
	listening()
	var mu sync.Mutex
	followed := map[string]bool{} // the gates that a goroutine waits for
	for {
		used, err := g.used(ctx, channel)
		if err != nil {
			return errors.Join(context.Cause(ctx), err)
		}
		for _, gate := range used {
			mu.Lock()
			begin := !followed[gate]
			followed[gate] = true
			mu.Unlock()
			if !begin {
				continue
			}
			waiting.Go(func() {
				err := g.follow(ctx, gate, each)
				mu.Lock()
				delete(followed, gate)
				mu.Unlock()
				if err != nil {
					stop(err)
				}
			})
		}
		if backoff.Sleep(ctx, gateCheck) != nil {
			return context.Cause(ctx)
		}
	}
}

// take takes the first lock that is free.
func (g *gates) take(ctx context.Context, channel string) error {
	conn, err := g.db.pool.Conn(ctx)
	if err != nil {
		return err
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	g.own = conn
	for n := range maxGates {
		var taken sql.NullInt64
		g.name = g.gate(channel, n)
		if err = conn.QueryRowContext(ctx, "SELECT GET_LOCK(?, 0)", g.name).Scan(&taken); err != nil || taken.Int64 == 1 {
			break
		}
		err = fmt.Errorf("%d other processes notify on this database already", maxGates)
	}
	if err != nil {
		g.leave()
	}
	return err
}

// used returns the gates of other clients.
func (g *gates) used(ctx context.Context, channel string) (names []string, err error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.own == nil {
		return nil, errors.New("the connection for notifications was lost")
	}
	var all []string
	var query strings.Builder
	found := make([]any, maxGates)
	for n := range found {
		all, found[n] = append(all, g.gate(channel, n)), &sql.NullInt64{}
		fmt.Fprintf(&query, ", IS_USED_LOCK('%s')", all[n])
	}
	if err := g.own.QueryRowContext(ctx, "SELECT "+query.String()[2:]).Scan(found...); err != nil {
		return nil, err
	}
	for n, name := range all {
		if found[n].(*sql.NullInt64).Valid && name != g.name {
			names = append(names, name)
		}
	}
	g.others = len(names) > 0
	return names, nil
}

// follow passes the texts of a gate to each until no client has it.
func (g *gates) follow(ctx context.Context, gate string, each func(text string)) error {
	last := ""
	for missed := 0; missed < gatesMissed && ctx.Err() == nil; {
		var taken, released sql.NullInt64
		err := g.db.pool.QueryRowContext(ctx, "SELECT GET_LOCK(?, 1), RELEASE_LOCK(?)", gate, gate).Scan(&taken, &released)
		if err != nil {
			return err
		}
		if taken.Int64 != 1 { // nothing was sent
			missed = 0
			continue
		}
		var statement string
		err = g.db.pool.QueryRowContext(ctx, "SELECT info FROM information_schema.processlist WHERE db = DATABASE() AND "+
			"LEFT(info, ?) = ? LIMIT 1", len(opens(gate)), opens(gate)).Scan(&statement)
		if err != nil && !errors.Is(err, sql.ErrNoRows) {
			return err
		}
		if _, text, ok := strings.Cut(strings.TrimSuffix(statement, " */"), " /* "); !ok {
			missed++ // too late for the text, or the client has ended
		} else if statement != last { // otherwise the gate is still open
			last, missed = statement, 0
			_, text, _ = strings.Cut(text, " ") // its number
			each(text)
		}
		_ = backoff.Sleep(ctx, gateOpen/5)
	}
	return nil
}
