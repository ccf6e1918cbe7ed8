package stress

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/openberth/berth/internal/databases"
)

const (
	slow    = 200       // clients that send a byte now and then
	huge    = 100 << 20 // bytes of a body that is refused
	most    = 2 << 30   // bytes of memory that a server under the race detector may ever need for it
	mutants = 1500      // hostile requests for each seed
	senders = 16        // of them
)

// dial opens a connection to the server.
func (p *process) dial(t *testing.T) net.Conn {
	t.Helper()
	c, err := net.DialTimeout("tcp", *p.addr.Load(), patience)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() }) // closed already, mostly
	return c
}

// well is how the server must be after whatever was sent: the same process, healthy.
func (p *process) well(t *testing.T) {
	t.Helper()
	if !p.alive() {
		t.Fatalf("the server is dead\n%s", p.tail())
	}
	p.healthy(t)
}

// Clients that send their headers byte by byte are cut, all of them, and others are served meanwhile.
func TestSlowClientsAreCut(t *testing.T) {
	t.Parallel()
	p := newProcess(t, databases.SQLite(t))
	api := p.client()
	var cut sync.WaitGroup
	head := "GET / HTTP/1.1\r\nHost: 127.0.0.1\r\nX-Slow: " + strings.Repeat("x", 4096)
	conns := make([]net.Conn, slow)
	for i := range conns {
		conns[i] = p.dial(t)
	}
	ended := make(chan struct{})
	for _, c := range conns {
		cut.Go(func() {
			go io.Copy(io.Discard, c) // until it is cut
			for i := range head {
				if _, err := c.Write([]byte{head[i]}); err != nil {
					return
				}
				select {
				case <-ended:
					return
				case <-time.After(200 * time.Millisecond):
				}
			}
		})
	}
	all := make(chan struct{})
	go func() {
		cut.Wait()
		close(all)
	}()
	defer close(ended)
	for last := time.After(2 * patience); ; {
		select {
		case <-all:
			p.well(t)
			return
		case <-last:
			t.Fatal("some slow clients are still served")
		case <-time.After(time.Second):
			if status, err := p.health(); err != nil || status != http.StatusOK {
				t.Fatalf("meanwhile /healthz is %d %v", status, err)
			}
			if _, err := api.Providers(t.Context(), nil); err != nil {
				t.Fatalf("meanwhile others are not served: %v", err)
			}
		}
	}
}

// endless is a body: JSON that goes on.
type endless struct{}

func (endless) Read(p []byte) (int, error) {
	for i := range p {
		p[i] = "[1,"[i%3]
	}
	return len(p), nil
}

// A body of 100 MB is refused with 413, whether or not its length is said before, and memory stays bounded.
func TestHugeBodies(t *testing.T) {
	t.Parallel()
	p := newProcess(t, databases.SQLite(t))
	before := p.peak(t)
	for name, length := range map[string]string{"length": fmt.Sprintf("Content-Length: %d", huge),
		"chunked": "Transfer-Encoding: chunked"} {
		t.Run(name, func(t *testing.T) {
			if status := p.pour(p.dial(t), length); status != http.StatusRequestEntityTooLarge {
				t.Errorf("a body of 100 MB is answered %d", status)
			}
		})
	}
	p.well(t)
	after := p.peak(t)
	t.Logf("memory at the most: %d MiB before, %d MiB after", before>>20, after>>20)
	if after > most {
		t.Errorf("memory went up to %d MiB", after>>20)
	}
}

// pour sends a huge body and returns the status of the answer, 0 without one. The server may stop to read in the
// middle.
func (p *process) pour(c net.Conn, length string) int {
	defer c.Close()
	go func() { // ends at the latest when the connection is closed
		fmt.Fprintf(c, "POST /allocations HTTP/1.1\r\nHost: 127.0.0.1\r\nX-Auth-Token: admin\r\nOpenStack-API-Version: "+
			"placement 1.39\r\n"+
			"Content-Type: application/json\r\n%s\r\n\r\n", length)
		body := io.LimitReader(endless{}, huge)
		if strings.HasPrefix(length, "Content") {
			io.Copy(c, body)
			return
		}
		for piece := make([]byte, 1<<20); ; {
			n, err := body.Read(piece)
			if err != nil {
				return
			}
			if _, err := fmt.Fprintf(c, "%x\r\n%s\r\n", n, piece[:n]); err != nil {
				return
			}
		}
	}()
	answer, err := http.ReadResponse(bufio.NewReader(c), nil)
	if err != nil {
		return 0
	}
	return answer.StatusCode
}

// Random bytes, and requests that are damaged at random, are answered below 500 or not at all, and the server stays
// well.
func TestHostileBytes(t *testing.T) {
	t.Parallel()
	for seed := *first; seed < *first+uint64(*seeds); seed++ {
		t.Run(fmt.Sprintf("seed %d", seed), func(t *testing.T) {
			p := newProcess(t, databases.SQLite(t))
			w := build(t, p.client())
			good := p.requests(w)
			answered := p.storm(t, seed, good)
			t.Logf("answers by status, 0 where none came: %v", answered)
			p.well(t)
		})
	}
}

// storm sends the requests of a seed, a few at a time, and counts the answers by their status.
func (p *process) storm(t *testing.T, seed uint64, good []string) map[int]int {
	var mu sync.Mutex
	answered := map[int]int{}
	var all sync.WaitGroup
	for worker := range senders {
		all.Go(func() {
			for i := worker; i < mutants; i += senders {
				said := damaged(rand.New(rand.NewPCG(seed, uint64(i))), good)
				status, left, err := p.say(said)
				mu.Lock()
				answered[status]++
				mu.Unlock()
				switch {
				case err != nil:
					t.Errorf("request %d: %v: %.2000q", i, err, said)
					return
				case status == http.StatusInternalServerError, status == http.StatusServiceUnavailable && !left:
					t.Errorf("request %d is answered %d: %.2000q", i, status, said)
				}
			}
		})
	}
	all.Wait()
	return answered
}

// requests are good ones, of all kinds.
func (p *process) requests(w world) (list []string) {
	var id string
	for one := range w {
		id = string(one)
		break
	}
	consumer := newID()
	share := `{"allocations":{"` + id +
		`":{"resources":{"VCPU":1}}},"consumer_generation":null,"project_id":"p","user_id":"u","consumer_type":"INSTANCE"}`
	for _, r := range [][3]string{
		{"GET", "/"},
		{"GET", "/resource_providers?name=host-1&resources=VCPU:1&required=HW_CPU_X86_AVX2&member_of=in:" + newID()},
		{"GET",
			"/allocation_candidates?resources=VCPU:1,MEMORY_MB:64&resources1=CUSTOM_VF:1&required1=!COMPUTE_NODE" +
				"&group_policy=none&same_subtree=1&limit=10"},
		{"GET", "/berth/v1/explain?resources=VCPU:100&resources_A=CUSTOM_VF:9&group_policy=isolate&in_tree=" + id},
		{"GET", "/resource_providers/" + id + "/usages"}, {"GET", "/usages?project_id=p&consumer_type=all"},
		{"GET", "/traits?name=in:HW_CPU_X86_VMX&associated=true"},
		{"POST", "/resource_providers", `{"name":"` + newID() + `","parent_provider_uuid":null}`},
		{"PUT", "/resource_providers/" + id + "/inventories",
			`{"resource_provider_generation":1,"inventories":{"VCPU":{"total":8,"reserved":0,"min_unit":1,"max_unit":8,"step_size":1,"allocation_ratio":1.5}}}`},
		{"PUT", "/resource_providers/" + id + "/traits", `{"resource_provider_generation":1,"traits":["HW_CPU_X86_VMX"]}`},
		{"PUT", "/resource_providers/" + id + "/aggregates",
			`{"resource_provider_generation":1,"aggregates":["` + newID() + `"]}`},
		{"PUT", "/traits/CUSTOM_FIRE"}, {"PUT", "/resource_classes/CUSTOM_FIRE"}, {"DELETE", "/traits/CUSTOM_FIRE"},
		{"PUT", "/allocations/" + consumer, share}, {"POST", "/allocations", `{"` + consumer + `":` + share + `}`},
		{"DELETE", "/allocations/" + consumer},
		{"POST", "/reshaper",
			`{"inventories":{"` + id +
				`":{"resource_provider_generation":1,"inventories":{"VCPU":{"total":8}}}},"allocations":{"` + consumer + `":` +
				share + `}}`},
		{"GET", "/metrics"}, {"GET", "/healthz"},
	} {
		head := r[0] + " " + r[1] + " HTTP/1.1\r\nHost: " + *p.addr.Load() + "\r\nX-Auth-Token: admin\r\nAccept: " +
			"application/json\r\nOpenStack-API-Version: placement 1.39\r\n"
		if r[2] != "" {
			head += fmt.Sprintf("Content-Type: application/json\r\nContent-Length: %d\r\n", len(r[2]))
		}
		list = append(list, head+"\r\n"+r[2])
	}
	return list
}

// spices are pieces that parsers stumble over.
func spices() []string {
	return []string{"\x00", "\xff\xfe", "\u202e", "%00", "%ff", "%", "%2f", "..", "/../", "\r\n", "\r\n\r\n", " ", "'",
		`"`, `\`, ";", "--", "🔥", "-1", "0", "1e400", "99999999999999999999",
		"9223372036854775807", "NaN", "null", "{}", "[]", "true", "in:", "!", "!in:", ",", ":", "=", "&", "?", "#", "in:in:",
		":,:", "limit=0", "limit=-1",
		"same_subtree=,", "root_required=!", "group_policy=", "resources=", "placement 1.99", "placement latest",
		"Transfer-Encoding: chunked\r\n", "Content-Length: 5\r\n",
		"Expect: 100-continue\r\n", "Connection: close\r\n", "Upgrade: h2c\r\n", strings.Repeat("[", 20000),
		strings.Repeat("a", 70000), strings.Repeat("&resources1=VCPU:1", 300)}
}

// damaged is random bytes, or a good request that is not quite good any more.
func damaged(chance *rand.Rand, good []string) []byte {
	if chance.IntN(8) == 0 {
		noise := make([]byte, chance.IntN(4096))
		for i := range noise {
			noise[i] = byte(chance.Uint32())
		}
		return noise
	}
	said, spice := []byte(good[chance.IntN(len(good))]), spices()
	for range 1 + chance.IntN(3) {
		at := where(chance, said)
		end := min(len(said), at+chance.IntN(16))
		switch chance.IntN(6) {
		case 0: // other bits
			if at < len(said) {
				said[at] ^= 1 << chance.IntN(8)
			}
		case 1: // something in between
			said = bytes.Join([][]byte{said[:at], said[at:]}, []byte(spice[chance.IntN(len(spice))]))
		case 2: // something in place of something
			said = bytes.Join([][]byte{said[:at], said[end:]}, []byte(spice[chance.IntN(len(spice))]))
		case 3: // something missing
			said = append(bytes.Clone(said[:at]), said[end:]...)
		case 4: // something twice
			said = bytes.Join([][]byte{said[:end], said[at:]}, nil)
		case 5: // parts of two requests
			other := good[chance.IntN(len(good))]
			said = append(bytes.Clone(said[:at]), other[chance.IntN(len(other)):]...)
		}
		if len(said) == 0 {
			return said
		}
	}
	return resized(chance, said)
}

// where picks a place: half of the time in the first line, else in the body or anywhere. Damage to headers is found too
// soon.
func where(chance *rand.Rand, said []byte) int {
	line, _, _ := bytes.Cut(said, []byte("\r\n"))
	head, body, _ := bytes.Cut(said, []byte("\r\n\r\n"))
	switch chance.IntN(5) {
	case 0, 1:
		return chance.IntN(len(line) + 1)
	case 2, 3:
		if len(body) > 0 {
			return len(head) + 4 + chance.IntN(len(body)+1)
		}
		return chance.IntN(len(line) + 1)
	}
	return chance.IntN(len(said) + 1)
}

// resized tells the true length of the body, most of the time: else few bodies would be read.
func resized(chance *rand.Rand, said []byte) []byte {
	head, body, ok := bytes.Cut(said, []byte("\r\n\r\n"))
	before, after, has := bytes.Cut(head, []byte("Content-Length: "))
	if _, rest, more := bytes.Cut(after, []byte("\r\n")); ok && has && chance.IntN(8) > 0 {
		if more {
			rest = append([]byte("\r\n"), rest...)
		}
		return fmt.Appendf(nil, "%sContent-Length: %d%s\r\n\r\n%s", before, len(body), rest, body)
	}
	return said
}

// say sends bytes and returns the status of the first answer; 0 when the server answers nothing. Who has no answer soon
// says that nothing more will come, which to the server is as if he had left.
func (p *process) say(said []byte) (status int, left bool, err error) {
	c, err := net.DialTimeout("tcp", *p.addr.Load(), patience)
	if err != nil {
		return 0, false, err
	}
	defer c.Close()
	if err := c.SetDeadline(time.Now().Add(patience)); err != nil {
		return 0, false, err
	}
	go c.Write(said) // the server may hang up in the middle
	var leaving atomic.Bool
	soon := time.AfterFunc(300*time.Millisecond, func() {
		leaving.Store(true)
		c.(*net.TCPConn).CloseWrite()
	})
	defer soon.Stop()
	answer, err := http.ReadResponse(bufio.NewReader(c), nil)
	if errors.Is(err, os.ErrDeadlineExceeded) {
		return 0, true, fmt.Errorf("no answer within %s: %w", patience, err)
	}
	if err != nil {
		return 0, leaving.Load(), nil
	}
	defer answer.Body.Close()
	if _, err := io.Copy(io.Discard, answer.Body); errors.Is(err, os.ErrDeadlineExceeded) {
		return 0, true, fmt.Errorf("the answer does not end within %s: %w", patience, err)
	}
	return answer.StatusCode, leaving.Load(), nil
}
