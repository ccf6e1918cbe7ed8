package main

import (
	"fmt"
	"net"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/openberth/berth/api/compute"
	"github.com/openberth/berth/internal/testenv"
)

// stallingProxy forwards connections until stall, and then keeps them open without forwarding anything.
type stallingProxy struct {
	listener net.Listener
	stalled  chan struct{} // closed by stall
	ended    chan struct{} // closed at the end of the test
}

// newStallingProxy starts a proxy to the address of an http URL, and returns the URL of the proxy.
func newStallingProxy(t *testing.T, target string) (p *stallingProxy, url string) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	p = &stallingProxy{listener: l, stalled: make(chan struct{}), ended: make(chan struct{})}
	var running sync.WaitGroup
	running.Go(func() {
		for {
			client, err := l.Accept()
			if err != nil {
				return
			}
			running.Go(func() { p.forward(client, strings.TrimPrefix(target, "http://")) })
		}
	})
	t.Cleanup(func() {
		close(p.ended)
		_ = l.Close()
		running.Wait()
	})
	return p, "http://" + l.Addr().String()
}

// forward forwards one connection.
func (p *stallingProxy) forward(client net.Conn, target string) {
	server, err := net.Dial("tcp", target)
	if err != nil {
		_ = client.Close()
		return
	}
	var copying sync.WaitGroup
	for _, way := range []struct{ to, from net.Conn }{{server, client}, {client, server}} {
		copying.Go(func() {
			buffer := make([]byte, 32<<10)
			for {
				n, err := way.from.Read(buffer)
				select {
				case <-p.stalled:
					<-p.ended
				default:
				}
				if _, failed := way.to.Write(buffer[:n]); err != nil || failed != nil {
					_ = way.to.Close()
					return
				}
			}
		})
	}
	go func() {
		<-p.ended
		_, _ = client.Close(), server.Close()
	}()
	copying.Wait()
}

// Two of three agents stop to answer while their connections stay open: one process is stopped, the connection of the
// other one stalls. New servers are built on the third host, and servers of the others can be evacuated.
func TestAgentsThatDoNotAnswer(t *testing.T) {
	testenv.Long(t)
	t.Parallel()
	f := newFleet(t, "[DEFAULT]\nservice_down_time = 30\n")
	proxy, through := newStallingProxy(t, f.compute.urls["compute"])
	direct := f.compute.urls["compute"]
	for _, name := range []string{"cmp1", "cmp2", "cmp3"} {
		if f.compute.urls["compute"] = direct; name == "cmp3" {
			f.compute.urls["compute"] = through
		}
		f.startAgent(name, f.host(name, bus81(t), deviceSpecs))
	}
	f.compute.urls["compute"] = direct
	c := f.compute.compute()
	flavor, err := c.CreateFlavor(t.Context(), compute.CreateFlavor{Name: "small", VCPUs: 1, RAM: 64})
	must(t, err)
	create := func(name string) string {
		t.Helper()
		made, err := c.CreateServer(t.Context(), compute.CreateServer{Name: name, Flavor: flavor.ID})
		must(t, err)
		return made.ID
	}
	active := func(id string) (s compute.Server) {
		t.Helper()
		testenv.Until(t, "server "+id+" is ACTIVE", func() (bool, error) {
			s, err = c.Server(t.Context(), id)
			return s.Status == "ACTIVE", fmt.Errorf("%s %+v %v", s.Status, s.Fault, err)
		})
		return s
	}
	old := map[string]string{}
	for i := 0; len(old) < 2 && i < 30; i++ {
		s := active(create(fmt.Sprintf("old%d", i)))
		if *s.Host != "cmp1" {
			old[*s.Host] = s.ID
		}
	}
	if len(old) < 2 {
		t.Fatalf("no server on cmp2 or cmp3: %v", old)
	}
	must(t, f.agents["cmp2"].cmd.Process.Signal(syscall.SIGSTOP))
	close(proxy.stalled)
	var ids []string
	for i := range 12 {
		ids = append(ids, create(fmt.Sprintf("new%d", i)))
	}
	for _, id := range ids {
		f.wantActiveOn("cmp1", active(id))
	}
	for host, id := range old {
		testenv.Until(t, host+" is evacuated", func() (bool, error) {
			_, stderr, status := output(t, f.args("server", "evacuate", id, "--wait")...)
			return status == 0, fmt.Errorf("%s", stderr)
		})
		f.wantActiveOn("cmp1", active(id))
	}
}
