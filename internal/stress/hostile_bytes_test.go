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
	"github.com/openberth/berth/internal/testenv"
)

const (
	slowClients = 200       // clients that send one byte at a time
	bodySize    = 100 << 20 // bytes of a body that is too large
	maxMemory   = 2 << 30   // bytes of memory that a server may use, also with the race detector
	mutants     = 1500      // mutated requests per seed
	senders     = 16        // clients that send them
)

// dial opens a connection to the server.
func (p *process) dial(t *testing.T) net.Conn {
	t.Helper()
	c, err := net.DialTimeout("tcp", *p.addr.Load(), testenv.Patience)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() }) // usually closed already
	return c
}

// checkAlive fails if the server has ended or restarted, or is not healthy.
func (p *process) checkAlive(t *testing.T) {
	t.Helper()
	if !p.alive() {
		t.Fatalf("the server has ended\n%s", p.tail())
	}
	p.healthy(t)
}

// TestHostileBytes sends random bytes and mutated requests. Each response is below 500, or there is none, and the
// server stays healthy.
func TestHostileBytes(t *testing.T) {
	t.Parallel()
	for seed := *first; seed < *first+uint64(*seeds); seed++ {
		t.Run(fmt.Sprintf("seed %d", seed), func(t *testing.T) {
			p := newProcess(t, databases.SQLite(t))
			w := build(t, p.placementClient())
			valid := p.requests(w)
			responses := p.sendMutants(t, seed, valid)
			t.Logf("responses by status, 0 without one: %v", responses)
			p.checkAlive(t)
		})
	}
}

// sendMutants sends the requests of a seed, several at a time, and counts the responses by status.
func (p *process) sendMutants(t *testing.T, seed uint64, valid []string) map[int]int {
	var mu sync.Mutex
	responses := map[int]int{}
	var all sync.WaitGroup
	for worker := range senders {
		all.Go(func() {
			for i := worker; i < mutants; i += senders {
				request := mutated(rand.New(rand.NewPCG(seed, uint64(i))), valid)
				status, left, err := p.send(request)
				mu.Lock()
				responses[status]++
				mu.Unlock()
				switch {
				case err != nil:
					t.Errorf("request %d: %v: %.2000q", i, err, request)
					return
				case status == http.StatusInternalServerError, status == http.StatusServiceUnavailable && !left:
					t.Errorf("request %d: status %d: %.2000q", i, status, request)
				}
			}
		})
	}
	all.Wait()
	return responses
}

// requests returns valid requests of all kinds.
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
			`{"resource_provider_generation":1,"inventories":{"VCPU":{"total":8,"reserved":0,"min_unit":1,"max_unit":8,` +
				`"step_size":1,"allocation_ratio":1.5}}}`},
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

// fragments returns texts that are difficult to parse.
func fragments() []string {
	return []string{"\x00", "\xff\xfe", "\u202e", "%00", "%ff", "%", "%2f", "..", "/../", "\r\n", "\r\n\r\n", " ", "'",
		`"`, `\`, ";", "--", "🔥", "-1", "0", "1e400", "99999999999999999999",
		"9223372036854775807", "NaN", "null", "{}", "[]", "true", "in:", "!", "!in:", ",", ":", "=", "&", "?", "#", "in:in:",
		":,:", "limit=0", "limit=-1",
		"same_subtree=,", "root_required=!", "group_policy=", "resources=", "placement 1.99", "placement latest",
		"Transfer-Encoding: chunked\r\n", "Content-Length: 5\r\n",
		"Expect: 100-continue\r\n", "Connection: close\r\n", "Upgrade: h2c\r\n", strings.Repeat("[", 20000),
		strings.Repeat("a", 70000), strings.Repeat("&resources1=VCPU:1", 300)}
}

// mutated returns random bytes, or a valid request with random changes.
func mutated(random *rand.Rand, valid []string) []byte {
	if random.IntN(8) == 0 {
		noise := make([]byte, random.IntN(4096))
		for i := range noise {
			noise[i] = byte(random.Uint32())
		}
		return noise
	}
	request, parts := []byte(valid[random.IntN(len(valid))]), fragments()
	for range 1 + random.IntN(3) {
		at := position(random, request)
		end := min(len(request), at+random.IntN(16))
		switch random.IntN(6) {
		case 0: // flip a bit
			if at < len(request) {
				request[at] ^= 1 << random.IntN(8)
			}
		case 1: // insert a fragment
			request = bytes.Join([][]byte{request[:at], request[at:]}, []byte(parts[random.IntN(len(parts))]))
		case 2: // replace bytes by a fragment
			request = bytes.Join([][]byte{request[:at], request[end:]}, []byte(parts[random.IntN(len(parts))]))
		case 3: // remove bytes
			request = append(bytes.Clone(request[:at]), request[end:]...)
		case 4: // repeat bytes
			request = bytes.Join([][]byte{request[:end], request[at:]}, nil)
		case 5: // join two requests
			other := valid[random.IntN(len(valid))]
			request = append(bytes.Clone(request[:at]), other[random.IntN(len(other)):]...)
		}
		if len(request) == 0 {
			return request
		}
	}
	return withLength(random, request)
}

// position returns a random position: half of the time in the first line, otherwise in the body or anywhere. A
// change of a header is detected too early.
func position(random *rand.Rand, request []byte) int {
	line, _, _ := bytes.Cut(request, []byte("\r\n"))
	head, body, _ := bytes.Cut(request, []byte("\r\n\r\n"))
	switch random.IntN(5) {
	case 0, 1:
		return random.IntN(len(line) + 1)
	case 2, 3:
		if len(body) > 0 {
			return len(head) + 4 + random.IntN(len(body)+1)
		}
		return random.IntN(len(line) + 1)
	}
	return random.IntN(len(request) + 1)
}

// withLength corrects Content-Length most of the time; otherwise few bodies would be read.
func withLength(random *rand.Rand, request []byte) []byte {
	head, body, ok := bytes.Cut(request, []byte("\r\n\r\n"))
	before, after, has := bytes.Cut(head, []byte("Content-Length: "))
	if _, rest, more := bytes.Cut(after, []byte("\r\n")); ok && has && random.IntN(8) > 0 {
		if more {
			rest = append([]byte("\r\n"), rest...)
		}
		return fmt.Appendf(nil, "%sContent-Length: %d%s\r\n\r\n%s", before, len(body), rest, body)
	}
	return request
}

// send sends bytes and returns the status of the first response, 0 without one. A client without a response after a
// short time closes its sending side; left reports that. For the server this is like a client that has left.
func (p *process) send(request []byte) (status int, left bool, err error) {
	c, err := net.DialTimeout("tcp", *p.addr.Load(), testenv.Patience)
	if err != nil {
		return 0, false, err
	}
	defer c.Close()
	if err := c.SetDeadline(time.Now().Add(testenv.Patience)); err != nil {
		return 0, false, err
	}
	go c.Write(request) // the server may disconnect before the end
	var closed atomic.Bool
	soon := time.AfterFunc(300*time.Millisecond, func() {
		closed.Store(true)
		c.(*net.TCPConn).CloseWrite()
	})
	defer soon.Stop()
	response, err := http.ReadResponse(bufio.NewReader(c), nil)
	if errors.Is(err, os.ErrDeadlineExceeded) {
		return 0, true, fmt.Errorf("no response within %s: %w", testenv.Patience, err)
	}
	if err != nil {
		return 0, closed.Load(), nil
	}
	defer response.Body.Close()
	if _, err := io.Copy(io.Discard, response.Body); errors.Is(err, os.ErrDeadlineExceeded) {
		return 0, true, fmt.Errorf("the response does not end within %s: %w", testenv.Patience, err)
	}
	return response.StatusCode, closed.Load(), nil
}
