package httpserver

import (
	"context"
	"errors"
	"runtime"
	"time"
)

// handshakeTurns lets as few TLS handshakes at a time be computed as processors can, in the order in which clients ask.
// When thousands of agents connect at once, as after a restart, they would otherwise share the processors: all
// handshakes end late, many after their time limit, and those begin again. A turn lasts while the server computes its
// part, not while it waits for the client.
type handshakeTurns struct {
	slots chan struct{}
	limit time.Duration // of a handshake: what has waited longer is not begun
}

func newHandshakeTurns(limit time.Duration) *handshakeTurns {
	return &handshakeTurns{slots: make(chan struct{}, 2*runtime.GOMAXPROCS(0)), limit: limit}
}

// errLateTurn is logged as the error of the handshake.
var errLateTurn = errors.New("too many TLS handshakes at a time")

// take waits for a turn, which ends when the connection writes or is closed. It returns an error when ctx ends, or when
// the client has waited too long.
func (t *handshakeTurns) take(ctx context.Context, conn *limitedConn) error {
	if conn == nil { // in memory
		return nil
	}
	late := time.NewTimer(t.limit)
	defer late.Stop()
	select {
	case t.slots <- struct{}{}:
		conn.turns = t
		conn.hasTurn.Store(true)
		return nil
	case <-late.C:
		return errLateTurn
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// endTurn ends the turn of a handshake, if the connection has one.
func (g *limitedConn) endTurn() {
	if g.hasTurn.CompareAndSwap(true, false) {
		<-g.turns.slots
	}
}

// Write implements net.Conn.
func (g *limitedConn) Write(p []byte) (int, error) {
	g.endTurn()
	return g.Conn.Write(p)
}
