package rpc

import (
	"bytes"
	"context"
	"encoding/binary"
	"io"
	"net"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/digitalocean/go-libvirt"
	"github.com/digitalocean/go-libvirt/socket"

	"github.com/openberth/berth/fault"
)

// FuzzWire reads any bytes as messages, and decodes those that are passed: neither panics, and no message is longer
// than the bytes.
func FuzzWire(f *testing.F) {
	lifecycle := event(3)
	f.Add(message(header{procedure: lifecycleEvent, kind: socket.Message}, lifecycle))
	f.Add(message(header{procedure: volDownload, kind: hole, status: socket.StatusContinue}, make([]byte, 12)))
	f.Add([]byte("HTTP/1.1 400 Bad Request\r\n\r\n"))
	f.Fuzz(func(t *testing.T, data []byte) {
		w := newWire(onlyReads{Reader: bytes.NewReader(data)}, func(error) {})
		close(w.opened)
		passed, _ := io.ReadAll(w)
		if len(passed) > len(data) {
			t.Fatalf("%d bytes passed of %d", len(passed), len(data))
		}
	})
}

// onlyReads is a connection from which a test reads.
type onlyReads struct {
	net.Conn
	io.Reader
}

func (r onlyReads) Read(to []byte) (int, error) { return r.Reader.Read(to) }

// header is the beginning of a message.
type header struct{ procedure, kind, serial, status uint32 }

// message returns a message.
func message(h header, payload []byte) (out []byte) {
	for _, n := range []uint32{uint32(headerSize + len(payload)), program, version, h.procedure, h.kind, h.serial,
		h.status} {
		out = binary.BigEndian.AppendUint32(out, n)
	}
	return append(out, payload...)
}

// event returns the payload of an event: the domain with an ID and no name has stopped.
func event(id int) []byte {
	out := make([]byte, 4+4+16)
	for _, n := range []int{id, int(EventStopped), 0} {
		out = binary.BigEndian.AppendUint32(out, uint32(n))
	}
	return out
}

// The procedures that the tests answer, and an event.
const (
	authList       = 66
	registerEvent  = 316
	listDomainsOf  = 273
	libVersion     = 157
	getXML         = 14
	lifecycleEvent = 318
)

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
		d.answer(registerEvent, 0, 0, 0, 0)
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

// TestConnectionEndsWhenItIsOpen has a daemon that ends just after it has opened the hypervisor. go-libvirt then ends
// ConnectToURI and follows the end of the connection at the same time; the race detector sees whether both use a field.
func TestConnectionEndsWhenItIsOpen(t *testing.T) {
	for range 100 {
		ours, theirs := net.Pipe()
		go func() {
			d := &daemon{t, theirs}
			d.answer(authList, 0, 0, 0, 0)
			d.answer(connectOpen)
			theirs.Close()
		}()
		if c, err := newClient(t.Context(), ours, "qemu:///system", 0); !fault.Is(err, fault.Unavailable) {
			t.Fatal(c, err)
		}
	}
}

// TestRefusedOpenEndsAtOnce has a daemon that refuses to open the hypervisor. ConnectToURI then closes the connection
// and waits for its end, which must not wait for ConnectToURI.
func TestRefusedOpenEndsAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ours, theirs := net.Pipe()
		go func() {
			d := &daemon{t, theirs}
			d.answer(authList, 0, 0, 0, 0)
			h := d.next()
			d.send(header{procedure: connectOpen, kind: socket.Reply, serial: h.serial, status: socket.StatusError},
				make([]byte, 80))
		}()
		began := time.Now()
		if c, err := newClient(t.Context(), ours, "qemu:///system", 0); err == nil {
			t.Error(c)
		}
		if took := time.Since(began); took > 0 {
			t.Errorf("it waited for %s", took)
		}
		theirs.Close()
	})
}

// next returns the next message that is not of a stream.
func (d *daemon) next() header {
	d.t.Helper()
	for {
		data, err := readMessage(d.conn)
		if err != nil {
			d.t.Error(err)
			return header{}
		}
		if kind := word(data, 4); kind != socket.Stream {
			return header{word(data, 3), kind, word(data, 5), word(data, 6)}
		}
	}
}

func (d *daemon) send(h header, payload []byte) {
	d.t.Helper()
	if _, err := d.conn.Write(message(h, payload)); err != nil {
		d.t.Error(err)
	}
}

// answer reads a call of a procedure and answers it.
func (d *daemon) answer(procedure uint32, payload ...byte) (serial uint32) {
	d.t.Helper()
	h := d.next()
	if h.procedure != procedure || h.kind != socket.Call {
		d.t.Errorf("got procedure %d of kind %d, want a call of %d", h.procedure, h.kind, procedure)
	}
	d.send(header{procedure: procedure, kind: socket.Reply, serial: h.serial}, payload)
	return h.serial
}

// maxStreamData is the largest piece of data in one message of the daemon (VIR_NET_MESSAGE_LEGACY_PAYLOAD_MAX).
const maxStreamData = 256 << 10

// TestSlowConsoleReaderDoesNotBlockCalls sends more console data than is kept: that stream ends with an error, and
// calls are answered.
func TestSlowConsoleReaderDoesNotBlockCalls(t *testing.T) {
	c, d := withDaemon(t)
	go func() {
		serial := d.answer(openConsole)
		data := header{procedure: openConsole, kind: socket.Stream, serial: serial, status: socket.StatusContinue}
		for range maxUnread/maxStreamData + 2 {
			d.send(data, make([]byte, maxStreamData))
		}
		d.answer(listDomainsOf, 0, 0, 0, 0, 0, 0, 0, 0)
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
			d.send(header{procedure: lifecycleEvent, kind: socket.Message}, event(n))
		}
		d.answer(listDomainsOf, 0, 0, 0, 0, 0, 0, 0, 0)
	}()
	if _, err := c.Domains(t.Context()); err != nil {
		t.Fatal(err)
	}
	for e := range c.Events() {
		if e.Domain.ID == maxEvents+9 {
			break
		}
	}
	sent := make(chan any, maxEvents+10)
	for n := range cap(sent) {
		sent <- &libvirt.DomainEventCallbackLifecycleMsg{Msg: libvirt.DomainEventLifecycleMsg{
			Dom: libvirt.Domain{ID: int32(n)}, Event: int32(libvirt.DomainEventStopped)}}
	}
	close(sent)
	c.deliver(sent)
	if first := <-c.Events(); first.Domain.ID != 10 || first.Kind != EventStopped {
		t.Errorf("the first event is %+v", first)
	}
}

// TestMessagesThatWouldStopTheLibrary sends data after the end of a console, a second reply to a call, and an error
// with the code 0: calls are answered, and that error is one.
func TestMessagesThatWouldStopTheLibrary(t *testing.T) {
	c, d := withDaemon(t)
	const times = 100
	go func() {
		for range times {
			serial := d.answer(openConsole)
			data := header{procedure: openConsole, kind: socket.Stream, serial: serial, status: socket.StatusContinue}
			d.send(data, []byte("text"))
			d.send(data, nil) // the end
			d.send(data, []byte("more"))
			data.status = socket.StatusError
			d.send(data, make([]byte, 24))
			serial = d.answer(libVersion, 0, 0, 0, 0, 0, 0, 0, 1)
			d.send(header{procedure: libVersion, kind: socket.Reply, serial: serial}, make([]byte, 8))
		}
		h := d.next()
		d.send(header{procedure: getXML, kind: socket.Reply, serial: h.serial, status: socket.StatusError},
			make([]byte, 24))
	}()
	for range times {
		s, err := c.Console(t.Context(), Domain{}, false)
		if err != nil {
			t.Fatal(err)
		}
		if text, err := io.ReadAll(s); string(text) != "text" || err != nil {
			t.Errorf("%q %v", text, err)
		}
		if v, err := c.LibVersion(t.Context()); v != "0.0.1" || err != nil {
			t.Fatalf("%q %v", v, err)
		}
	}
	if text, err := c.XML(t.Context(), Domain{}, Live); err == nil {
		t.Errorf("an error without a code is the text %q", text)
	}
}

// TestDownloadEndsWithItsConnection closes a connection whose reader of a download is slow, and one whose daemon does
// not send anything.
func TestDownloadEndsWithItsConnection(t *testing.T) {
	for _, sends := range []int{0, maxUnread/maxStreamData + 9} {
		c, d := withDaemon(t)
		go func() {
			serial := d.answer(volDownload)
			data := header{procedure: volDownload, kind: socket.Stream, serial: serial, status: socket.StatusContinue}
			for range sends {
				_, _ = d.conn.Write(message(data, make([]byte, maxStreamData))) // until the client has closed
			}
		}()
		s, err := StorageOf(c).Download(t.Context(), Volume{}, 0)
		if err != nil {
			t.Fatal(err)
		}
		time.AfterFunc(50*time.Millisecond, func() { c.Close() })
		for err == nil {
			time.Sleep(time.Duration(sends) * 10 * time.Millisecond)
			_, err = s.Next()
		}
		if !fault.Is(err, fault.Unavailable) {
			t.Errorf("%d pieces: %v", sends, err)
		}
	}
}

// TestHangingDaemon checks that a call ends with its limit when the daemon does not read, and that one that changes
// something returns its result although its caller has given it up.
func TestHangingDaemon(t *testing.T) {
	c, d := withDaemon(t)
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		h := d.next()
		cancel()
		time.Sleep(20 * time.Millisecond)
		d.send(header{procedure: h.procedure, kind: socket.Reply, serial: h.serial}, nil)
	}()
	if err := c.Shutdown(ctx, Domain{}); err != nil {
		t.Errorf("a change that was done: %v", err)
	}
	c.limit = 200 * time.Millisecond
	for range 3 { // the first ones fill the buffers of the socket
		if _, err := c.Define(t.Context(), strings.Repeat("x", 2<<20)); !fault.Is(err, fault.Unavailable) {
			t.Errorf("got %v", err)
		}
	}
}

// TestUnansweredCallEnds checks that a call ends with its context, and that its late answer does not disturb the next.
func TestUnansweredCallEnds(t *testing.T) {
	c, d := withDaemon(t)
	ctx, cancel := context.WithCancel(t.Context())
	first := make(chan header, 1)
	go func() {
		first <- d.next()
		cancel()
	}()
	if _, err := c.LibVersion(ctx); !fault.Is(err, fault.Unavailable) {
		t.Errorf("got %v", err)
	}
	go func() {
		late := <-first
		d.send(header{procedure: late.procedure, kind: socket.Reply, serial: late.serial}, make([]byte, 8))
		h := d.next()
		d.send(header{procedure: h.procedure, kind: socket.Reply, serial: late.serial}, []byte{0, 0, 0, 0, 0, 0, 0, 1})
		d.send(header{procedure: h.procedure, kind: socket.Reply, serial: h.serial}, []byte{0, 0, 0, 0, 0, 0x89, 0x54, 0x40})
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
