package rest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/openberth/berth/fault"
)

const (
	testLargest = 4 * bodyStep
	testBudget  = 8 * bodyStep
)

// sender is a client of a budget. It sends the body of a request in pieces.
type sender struct {
	*httptest.ResponseRecorder
	body    *io.PipeReader
	send    *io.PipeWriter
	request *http.Request
	result  chan error
	data    []byte
	release func()
}

// SetReadDeadline ends the current read, as the method of a connection does.
func (s *sender) SetReadDeadline(time.Time) error {
	return s.body.CloseWithError(os.ErrDeadlineExceeded)
}

func (s *sender) Read(p []byte) (int, error) {
	n, err := s.body.Read(p)
	if errors.Is(err, io.ErrClosedPipe) { // closed by SetReadDeadline
		err = os.ErrDeadlineExceeded
	}
	return n, err
}

func (s *sender) Close() error { return nil }

// begin reads a body with this Content-Length (-1: none) in the background.
func begin(ctx context.Context, b *BodyBudget, length int64) *sender {
	s := &sender{ResponseRecorder: httptest.NewRecorder(), result: make(chan error, 1)}
	s.body, s.send = io.Pipe()
	s.request = httptest.NewRequestWithContext(ctx, "PUT", "/", s)
	s.request.ContentLength = length
	go func() {
		data, release, err := b.Read(s, s.request, testLargest)
		s.data, s.release = data, release
		s.result <- err
	}()
	return s
}

func (s *sender) write(bytes int) {
	_, _ = s.send.Write(make([]byte, bytes)) // fails when the budget has given the body up
}

// state returns "arriving", "done" or the error, after all goroutines have blocked.
func (s *sender) state() string {
	synctest.Wait()
	select {
	case err := <-s.result:
		s.result <- err
		if err != nil {
			return err.Error()
		}
		return fmt.Sprint("done ", len(s.data))
	default:
		return "arriving"
	}
}

func expect(t *testing.T, what string, s *sender, want string) {
	t.Helper()
	if got := s.state(); !strings.HasPrefix(got, want) {
		t.Errorf("%s: %s, want %s", what, got, want)
	}
}

// A body that is announced but not sent costs nothing. A small body does not wait. A large one is charged for the bytes
// that have arrived, until it is released.
func TestBodiesAreChargedAsTheyArrive(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := NewBodyBudget(testBudget, testLargest)
		var silent []*sender
		for range 100 {
			s := begin(t.Context(), b, testLargest)
			s.write(FreeBody - 1)
			silent = append(silent, s)
		}
		full := begin(t.Context(), b, testLargest)
		full.write(testLargest)
		full.send.Close()
		expect(t, "a large body beside those", full, fmt.Sprint("done ", testLargest))
		if b.free != testBudget-(testLargest-FreeBody)-bodyStep { // the last step met the end
			t.Errorf("%d bytes are free", b.free)
		}
		small := begin(t.Context(), b, FreeBody)
		small.write(FreeBody)
		small.send.Close()
		expect(t, "a small body", small, "done 16384")
		full.release()
		full.release()
		if b.free != testBudget {
			t.Errorf("after the release %d of %d bytes are free", b.free, testBudget)
		}
		for _, s := range silent {
			s.send.CloseWithError(io.ErrUnexpectedEOF)
			expect(t, "a body that broke off", s, "unexpected EOF")
		}
	})
}

// A body waits for the budget until another one is released, at most until its request ends.
func TestBodyWaitsForBudget(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := NewBodyBudget(testBudget, testLargest)
		b.free = 0
		waiting := begin(t.Context(), b, testLargest)
		leaving, leave := context.WithCancel(t.Context())
		left := begin(leaving, b, -1)
		for _, s := range []*sender{waiting, left} {
			s.write(FreeBody)
		}
		time.Sleep(time.Hour)
		expect(t, "without room", waiting, "arriving")
		leave()
		expect(t, "a request that ended", left, "the request ended while its body waited for memory")
		if !fault.Is(<-left.result, fault.Unavailable) {
			t.Error("the kind of the fault is another")
		}
		b.end(&upload{charged: testBudget})
		waiting.write(10)
		waiting.send.Close()
		expect(t, "with room", waiting, "done 16394")
	})
}

// Slow bodies are aborted only if others wait for the budget.
func TestSlowBodiesAreAborted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := NewBodyBudget(testBudget, testLargest)
		first := begin(t.Context(), b, testLargest)
		first.write(FreeBody + testLargest/2)
		time.Sleep(time.Hour)
		expect(t, "a slow body while there is room", first, "arriving")
		var stalled []*sender
		for range 3 {
			s := begin(t.Context(), b, testLargest)
			go s.write(testLargest - 1)
			stalled = append(stalled, s)
		}
		expect(t, "the slow one, when others wait", first, ErrSlowBody.Error())
		begun := time.Now()
		honest := begin(t.Context(), b, testLargest)
		go func() {
			honest.write(testLargest)
			honest.send.Close()
		}()
		<-honest.result
		if took := time.Since(begun); took > 3*contendedTimeout || len(honest.data) != testLargest {
			t.Errorf("%d bytes after %s", len(honest.data), took)
		}
		honest.release()
		for _, s := range stalled {
			s.send.Close()
			s.state()
			if s.release != nil {
				s.release()
			}
		}
		if b.free != testBudget || len(b.arriving) != 0 {
			t.Errorf("%d bytes are free, %d bodies arrive", b.free, len(b.arriving))
		}
	})
}

// Many concurrent large bodies, in pieces of any size, all arrive: none waits indefinitely, and none is aborted. The
// charges never exceed the budget.
func TestManyLargeBodiesArrive(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := NewBodyBudget(testBudget, testLargest)
		var all sync.WaitGroup
		for i := range 50 {
			all.Go(func() {
				chance := rand.New(rand.NewPCG(1, uint64(i)))
				want := make([]byte, 1+chance.IntN(testLargest))
				for at := range want {
					want[at] = byte(chance.Uint32())
				}
				s := begin(t.Context(), b, -1)
				for rest := want; len(rest) > 0; {
					n := min(len(rest), 1+chance.IntN(2*bodyStep))
					if _, err := s.send.Write(rest[:n]); err != nil {
						t.Error(err)
						return
					}
					rest = rest[n:]
					time.Sleep(time.Duration(chance.Int64N(int64(10 * time.Millisecond))))
				}
				s.send.Close()
				if err := <-s.result; err != nil || !bytes.Equal(s.data, want) {
					t.Errorf("%d of %d bytes: %v", len(s.data), len(want), err)
					return
				}
				b.mu.Lock()
				if b.free < 0 {
					t.Errorf("%d bytes are free", b.free)
				}
				b.mu.Unlock()
				time.Sleep(time.Duration(chance.Int64N(int64(50 * time.Millisecond))))
				s.release()
			})
		}
		all.Wait()
		if b.free != testBudget || len(b.arriving) != 0 {
			t.Errorf("%d bytes are free, %d bodies arrive", b.free, len(b.arriving))
		}
	})
}

// Errors of the connection and of the size are returned, and release the budget.
func TestBodiesThatFail(t *testing.T) {
	for name, c := range map[string]struct {
		body io.Reader
		want func(error) bool
	}{
		"too large": {strings.NewReader(strings.Repeat("x", testLargest+1)),
			func(err error) bool { _, ok := errors.AsType[*http.MaxBytesError](err); return ok }},
		"broken off": {io.MultiReader(strings.NewReader(strings.Repeat("x", 3*bodyStep+1)), failing{io.ErrUnexpectedEOF}),
			func(err error) bool { return err == io.ErrUnexpectedEOF }},
		"slow": {io.MultiReader(strings.NewReader(strings.Repeat("x", 3*bodyStep)),
			failing{os.ErrDeadlineExceeded}), func(err error) bool { return err == ErrSlowBody }},
		"slow at once": {failing{os.ErrDeadlineExceeded}, func(err error) bool { return err == ErrSlowBody }},
	} {
		b := NewBodyBudget(testBudget, testLargest)
		r := httptest.NewRequest("PUT", "/", c.body)
		_, _, err := b.Read(httptest.NewRecorder(), r, testLargest)
		if !c.want(err) {
			t.Errorf("%s: %v", name, err)
		}
		if b.free != testBudget || len(b.arriving) != 0 {
			t.Errorf("%s: %d bytes are free, %d bodies arrive", name, b.free, len(b.arriving))
		}
	}
}

type failing struct{ err error }

func (f failing) Read([]byte) (int, error) { return 0, f.err }
