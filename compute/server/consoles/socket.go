package consoles

import (
	"context"
	"time"

	"github.com/coder/websocket"

	"github.com/openberth/berth/api/host"
	"github.com/openberth/berth/api/rest"
	"github.com/openberth/berth/compute/server/request"
	"github.com/openberth/berth/fault"
)

// serveSocket is GET /console/socket: it connects a browser with a console of a guest, until one of them ends. The
// token is used by the request, also if it fails.
func (s *Handlers) serveSocket(c *request.Call) error {
	opens, ok := s.Tokens.find(c.R.URL.Query().Get("token"), true, s.Now())
	if !ok {
		return fault.New(fault.Forbidden, "the token of the console is not valid: it was used, or has expired; request "+
			"another URL")
	}
	found, err := s.Store.Read(c.R.Context(), opens.server)
	if err != nil {
		return err
	}
	id, session, closed, err := s.open(c.R.Context(), found, opens.kind == noVNC)
	if err != nil {
		return err
	}
	defer closed()
	// the token is a secret, so the page that sends it needs no check
	socket, err := websocket.Accept(c.W, c.R, &websocket.AcceptOptions{InsecureSkipVerify: true,
		Subprotocols: []string{"binary"}})
	if err != nil {
		return nil // it has answered
	}
	socket.SetReadLimit(1 << 20)
	s.Log.Info("console opened", "server", found.ID, "host", found.Host, "type", string(opens.kind), "session", id)
	ctx, cancel := context.WithCancel(rest.Unlimited(context.WithoutCancel(c.R.Context())))
	defer cancel()
	go func() {
		readSocket(ctx, socket, session)
		session.end("the user has closed the console")
		cancel()
	}()
	s.writeSocket(ctx, socket, session)
	session.end("the user has closed the console")
	_ = socket.Close(websocket.StatusNormalClosure, clipReason(session.why)) // the browser may have disconnected
	s.Log.Info("console closed", "server", found.ID, "type", string(opens.kind), "reason", session.why)
	return nil
}

// clipReason shortens the reason of a close to what a frame can have.
func clipReason(why string) string { return why[:min(len(why), 120)] }

// readSocket passes what the user types to the agent, until the browser disconnects or the session ends.
func readSocket(ctx context.Context, socket *websocket.Conn, session *consoleSession) {
	for {
		_, data, err := socket.Read(ctx)
		if err != nil {
			return
		}
		for len(data) > 0 {
			part := data[:min(len(data), host.MaxConsoleData)]
			data = data[len(part):]
			select {
			case session.input <- part:
			case <-session.ended:
				return
			}
		}
	}
}

// writeSocket passes what the guest sends to the browser, until the session ends or the browser does not read.
func (s *Handlers) writeSocket(ctx context.Context, socket *websocket.Conn, session *consoleSession) {
	beat := time.NewTicker(s.Heartbeat)
	defer beat.Stop()
	for {
		limited, cancel := context.WithTimeout(ctx, 3*s.Heartbeat)
		var err error
		select {
		case <-ctx.Done():
			err = ctx.Err()
		case <-s.Stop:
			session.end("compute ends")
		case <-session.ended:
			cancel()
			return
		case data := <-session.output:
			err = socket.Write(limited, websocket.MessageBinary, data)
		case <-beat.C:
			err = socket.Ping(limited)
		}
		if cancel(); err != nil {
			return
		}
	}
}
