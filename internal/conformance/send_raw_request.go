package conformance

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"
)

// answerTimeout is how long a server may take for an answer.
const answerTimeout = 10 * time.Minute

// Request is an HTTP request as it is sent.
type Request struct {
	Method, Target string
	Headers        []Header
	Body           string
	HasBody        bool
}

// String returns the request in one or two lines.
func (a Request) String() string {
	text := a.Method + " " + a.Target
	for _, h := range a.Headers {
		if !strings.EqualFold(h.Name, "X-Auth-Token") || h.Value != "admin" {
			text += " [" + h.Name + ": " + h.Value + "]"
		}
	}
	if a.HasBody {
		text += "\n    " + shorten(a.Body)
	}
	return text
}

// Answer is an HTTP response.
type Answer struct {
	Status int
	Header http.Header
	Body   string
}

// String returns the answer in one or two lines.
func (a Answer) String() string {
	return fmt.Sprintf("%d %s\n    %s", a.Status, a.Header.Get("Content-Type"), shorten(a.Body))
}

func shorten(text string) string {
	if len(text) > 1200 {
		return text[:1200] + "…"
	}
	return text
}

// send sends a request unchanged on a new connection and reads the answer.
func send(addr string, a Request) (Answer, error) {
	conn, err := net.DialTimeout("tcp", addr, answerTimeout)
	if err != nil {
		return Answer{}, err
	}
	defer conn.Close()
	if err := conn.SetDeadline(time.Now().Add(answerTimeout)); err != nil {
		return Answer{}, err
	}
	var b strings.Builder
	fmt.Fprintf(&b, "%s %s HTTP/1.1\r\n", a.Method, a.Target)
	defaults := []Header{{"Host", addr}, {"Connection", "close"}}
	if a.HasBody {
		defaults = append(defaults, Header{"Content-Length", strconv.Itoa(len(a.Body))})
	}
	defaults = slices.DeleteFunc(defaults, func(u Header) bool {
		return slices.ContainsFunc(a.Headers, func(h Header) bool { return strings.EqualFold(h.Name, u.Name) })
	})
	for _, h := range append(defaults, a.Headers...) {
		fmt.Fprintf(&b, "%s: %s\r\n", h.Name, h.Value)
	}
	b.WriteString("\r\n" + a.Body)
	// A server may answer and close the connection before it has read the whole body. The answer is valid then, although
	// writing failed.
	_, werr := io.WriteString(conn, b.String())
	resp, err := http.ReadResponse(bufio.NewReader(conn), &http.Request{Method: a.Method})
	if err != nil {
		return Answer{}, fmt.Errorf("%s: no answer: %w (write: %v)", a, err, werr)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		return Answer{}, fmt.Errorf("%s: the answer is incomplete: %w", a, err)
	}
	return Answer{Status: resp.StatusCode, Header: resp.Header, Body: string(body)}, nil
}
