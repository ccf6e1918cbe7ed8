package machines

import (
	"bufio"
	"crypto/tls"
	"encoding/json"
	"io"
	"net"
	"os"
	"strings"
	"time"
)

// RelayVariable is the environment variable that turns the program of a test into a relay, see RunRelay.
const RelayVariable = "BERTH_TEST_AS_RELAY"

// Relay forwards TCP connections.
type Relay struct {
	Listen            string        // address on the machine
	Target            string        // address, or path of a Unix socket
	CertFile, KeyFile string        // the relay accepts TLS with this certificate; empty: it forwards what it receives
	Delay             time.Duration // of each byte, in each direction
	Rate              int           // bytes each second in each direction; 0: no limit
}

// listening is what a relay prints when it listens.
const listening = "the relay listens\n"

// StartRelay starts a relay on the machine, as a process of this program, whose TestMain calls RunRelay. It returns
// when the relay listens.
func (m *Machine) StartRelay(r Relay) {
	t := m.t
	t.Helper()
	conf, err := json.Marshal(r)
	must(t, err)
	self, err := os.Executable() // in a directory that all machines share
	must(t, err)
	cmd := m.Command("exec '"+self+"'", RelayVariable+"="+string(conf))
	var errs strings.Builder
	cmd.Stderr = &errs
	out, err := cmd.StdoutPipe()
	must(t, err)
	must(t, cmd.Start())
	t.Cleanup(func() {
		cmd.Process.Kill()
		cmd.Wait()
	})
	if line, err := bufio.NewReader(out).ReadString('\n'); line != listening {
		t.Fatalf("the relay does not start: %v\n%s", err, errs.String())
	}
}

// RunRelay runs the relay of this configuration until the process ends. It prints a line when it listens.
func RunRelay(conf string) error {
	var r Relay
	if err := json.Unmarshal([]byte(conf), &r); err != nil {
		return err
	}
	l, err := net.Listen("tcp", r.Listen)
	if err != nil {
		return err
	}
	if r.CertFile != "" {
		cert, err := tls.LoadX509KeyPair(r.CertFile, r.KeyFile)
		if err != nil {
			return err
		}
		l = tls.NewListener(l, &tls.Config{Certificates: []tls.Certificate{cert}, MinVersion: tls.VersionTLS12})
	}
	os.Stdout.WriteString(listening)
	return r.serve(l)
}

// serve forwards the connections of a listener until that is closed.
func (r Relay) serve(l net.Listener) error {
	for {
		conn, err := l.Accept()
		if err != nil {
			return err
		}
		go r.forward(conn)
	}
}

// forward connects one connection to the target and closes both when one of them ends. It waits for the first bytes of
// the client, because OpenStack's Keystone, as the tests start it, serves one connection at a time, also one without a
// request.
func (r Relay) forward(conn net.Conn) {
	defer conn.Close()
	client := bufio.NewReader(conn)
	if _, err := client.Peek(1); err != nil {
		return
	}
	network := "tcp"
	if strings.HasPrefix(r.Target, "/") {
		network = "unix"
	}
	target, err := net.Dial(network, r.Target)
	if err != nil {
		return
	}
	defer target.Close()
	ended := make(chan bool, 2)
	go func() {
		r.copy(target, client)
		ended <- true
	}()
	go func() {
		r.copy(conn, target)
		ended <- true
	}()
	<-ended
}

// chunk is a part of a stream and the time at which it has passed the link.
type chunk struct {
	data []byte
	due  time.Time
}

// copy forwards one direction of a connection with the delay and the rate of the link.
func (r Relay) copy(to io.Writer, from io.Reader) {
	chunks := make(chan chunk, 64)
	go func() {
		defer close(chunks)
		for {
			data := make([]byte, 4096)
			n, err := from.Read(data)
			if n > 0 {
				chunks <- chunk{data[:n], time.Now().Add(r.Delay)}
			}
			if err != nil {
				return
			}
		}
	}()
	for c := range chunks {
		time.Sleep(time.Until(c.due))
		if _, err := to.Write(c.data); err != nil {
			break
		}
		if r.Rate > 0 {
			time.Sleep(time.Duration(len(c.data)) * time.Second / time.Duration(r.Rate))
		}
	}
	go func() { // the reader ends when forward closes the connections
		for range chunks {
		}
	}()
}
