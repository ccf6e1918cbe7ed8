package rpc

import (
	"bytes"
	"context"
	"errors"
	"net"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/openberth/berth/fault"
)

// FuzzReadMessage decodes any bytes as messages, events and errors: it must neither panic nor allocate more than a
// message may have.
func FuzzReadMessage(f *testing.F) {
	var ok bytes.Buffer
	var e encoder
	e.word(7)
	e.domain(Domain{Name: "guest", ID: 3})
	e.word(2)
	e.word(0)
	if err := writeMessage(&ok, header{procedure: domainEventLifecycle, kind: kindMessage}, e.data); err != nil {
		f.Fatal(err)
	}
	f.Add(ok.Bytes())
	f.Add([]byte("HTTP/1.1 400 Bad Request\r\n\r\n"))
	f.Fuzz(func(t *testing.T, data []byte) {
		in := bytes.NewReader(data)
		for {
			h, payload, err := readMessage(in)
			if err != nil {
				return
			}
			if len(payload) > len(data) {
				t.Fatalf("%d bytes of payload in %d bytes", len(payload), len(data))
			}
			_, _, _ = decodeEvent(h.procedure, payload)
			_ = decodeError(payload)
		}
	})
}

// TestValues encodes values and decodes them again.
func TestValues(t *testing.T) {
	for _, text := range []string{"", "a", "abc", "abcd", "abcde", "ä\x00"} {
		var e encoder
		e.text(text)
		e.optionalText(text)
		e.domain(Domain{Name: text, UUID: [16]byte{1, 15: 16}, ID: -1})
		if len(e.data)%4 != 0 {
			t.Errorf("%q: %d bytes", text, len(e.data))
		}
		d := decoder{data: e.data}
		plain, optional, domain := d.text(), d.optionalText(), d.domain()
		if plain != text || optional != text || domain.Name != text || domain.UUID[15] != 16 || domain.ID != -1 ||
			d.err() != nil || len(d.data) != 0 {
			t.Errorf("%q: %q %q %+v, %v, %d bytes left", text, plain, optional, domain, d.err(), len(d.data))
		}
		short := decoder{data: e.data[:len(e.data)-1]}
		short.text()
		short.optionalText()
		if short.domain(); !errors.Is(short.err(), errShort) {
			t.Errorf("%q without the last byte: %v", text, short.err())
		}
	}
}

// daemon is the other end of a client's connection.
type daemon struct {
	t    *testing.T
	conn net.Conn
}

// withDaemon connects a client to a daemon that the test plays. The client is opened.
func withDaemon(t *testing.T) (*Client, *daemon) {
	t.Helper()
	l, err := net.Listen("unix", filepath.Join(t.TempDir(), "s"))
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	played := make(chan *daemon, 1)
	go func() {
		conn, err := l.Accept()
		if err != nil {
			t.Error(err)
			close(played)
			return
		}
		d := &daemon{t, conn}
		d.answer(authList, 0, 0, 0, 0)
		d.answer(connectOpen)
		d.answer(registerDomainEvent, 0, 0, 0, 0)
		played <- d
	}()
	c, err := Dial(t.Context(), l.Addr().String(), "qemu:///system", 0)
	if err != nil {
		t.Fatal(err)
	}
	d := <-played
	t.Cleanup(func() {
		c.Close()
		d.conn.Close()
	})
	return c, d
}

// next returns the next message.
func (d *daemon) next() (header, []byte) {
	d.t.Helper()
	h, payload, err := readMessage(d.conn)
	if err != nil {
		d.t.Error(err)
	}
	return h, payload
}

func (d *daemon) send(h header, payload []byte) {
	d.t.Helper()
	if err := writeMessage(d.conn, h, payload); err != nil {
		d.t.Error(err)
	}
}

// answer reads a call of a procedure and answers it.
func (d *daemon) answer(p Procedure, payload ...byte) uint32 {
	d.t.Helper()
	h, _ := d.next()
	if h.procedure != p || h.kind != kindCall {
		d.t.Errorf("got %s of kind %d, want a call of %s", h.procedure, h.kind, p)
	}
	d.send(header{procedure: p, kind: kindReply, serial: h.serial}, payload)
	return h.serial
}

// TestSlowConsoleReaderDoesNotBlockCalls sends more console data than is kept: that stream ends with an error, and
// calls are answered.
func TestSlowConsoleReaderDoesNotBlockCalls(t *testing.T) {
	c, d := withDaemon(t)
	go func() {
		serial := d.answer(domainOpenConsole)
		data := header{procedure: domainOpenConsole, kind: kindStream, serial: serial, status: statusContinue}
		for range maxUnread/maxStreamData + 2 {
			d.send(data, make([]byte, maxStreamData))
		}
		d.answer(connectListAllDomains, 0, 0, 0, 0, 0, 0, 0, 0)
	}()
	s, err := c.Console(t.Context(), Domain{}, false)
	if err != nil {
		t.Fatal(err)
	}
	if list, err := c.Domains(t.Context()); err != nil || len(list) != 0 {
		t.Errorf("%v %v", list, err)
	}
	total, buffer := 0, make([]byte, maxStreamData)
	for err == nil {
		n, failed := s.Read(buffer)
		total, err = total+n, failed
	}
	if total != maxUnread || !strings.Contains(err.Error(), "wait to be read") {
		t.Errorf("%d bytes, %v", total, err)
	}
}

// TestManyEventsDoNotBlockCalls sends more events than are kept: the oldest are dropped, and calls are answered.
func TestManyEventsDoNotBlockCalls(t *testing.T) {
	c, d := withDaemon(t)
	go func() {
		for n := range maxEvents + 10 {
			var e encoder
			e.word(0)
			e.domain(Domain{ID: n})
			e.word(uint32(EventStopped))
			e.word(0)
			d.send(header{procedure: domainEventLifecycle, kind: kindMessage}, e.data)
		}
		d.answer(connectListAllDomains, 0, 0, 0, 0, 0, 0, 0, 0)
	}()
	if _, err := c.Domains(t.Context()); err != nil {
		t.Fatal(err)
	}
	if first := <-c.Events(); first.Domain.ID != 10 || first.Kind != EventStopped {
		t.Errorf("the first event is %+v", first)
	}
}

// TestUnansweredCallEnds checks that a call ends with its context, and that its late answer does not disturb the next.
func TestUnansweredCallEnds(t *testing.T) {
	c, d := withDaemon(t)
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	if _, err := c.LibVersion(ctx); !fault.Is(err, fault.Unavailable) {
		t.Errorf("got %v", err)
	}
	go func() {
		late := d.answer(connectGetLibVersion, 0, 0, 0, 0, 0, 0, 0, 0)
		h, _ := d.next()
		d.send(header{procedure: h.procedure, kind: kindReply, serial: late}, []byte{0, 0, 0, 0, 0, 0, 0, 1})
		d.send(header{procedure: h.procedure, kind: kindReply, serial: h.serial}, []byte{0, 0, 0, 0, 0, 0x89, 0x54, 0x40})
	}()
	if v, err := c.LibVersion(t.Context()); v != "9.0.0" || err != nil {
		t.Errorf("%q %v", v, err)
	}
}

// TestWrongProtocol connects to a server that is not libvirt.
func TestWrongProtocol(t *testing.T) {
	l, err := net.Listen("unix", filepath.Join(t.TempDir(), "s"))
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	go func() {
		if conn, err := l.Accept(); err == nil {
			conn.Write([]byte("HTTP/1.1 400 Bad Request\r\n\r\n"))
			defer conn.Close()
			conn.Read(make([]byte, 100))
		}
	}()
	if _, err := Dial(t.Context(), l.Addr().String(), "", 0); !fault.Is(err, fault.Unavailable) || !strings.Contains(
		err.Error(), "not libvirt's protocol") {
		t.Errorf("got %v", err)
	}
}
