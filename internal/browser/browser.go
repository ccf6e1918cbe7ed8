// Package browser opens pages in Chromium for tests, by its DevTools protocol.
package browser

import (
	"bufio"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/coder/websocket"
	"github.com/coder/websocket/wsjson"

	"github.com/openberth/berth/internal/testenv"
)

// Browser is Chromium without a window, with one page.
type Browser struct {
	t    *testing.T
	page *websocket.Conn
	last int // id of the last call

	// Complaints are errors and warnings of the pages: exceptions, what scripts log, and what Chromium reports, such as
	// violations of the Content-Security-Policy and requests that failed.
	Complaints []string
	Requested  []string // the addresses of all requests
}

// Start starts Chromium, which ends with the test. The test calls testenv.Need(t, "chromium") before.
func Start(t *testing.T) *Browser {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "chromium", "--headless=new", "--no-sandbox", "--disable-gpu",
		"--disable-dev-shm-usage", "--remote-debugging-port=0", "--user-data-dir="+t.TempDir(), "about:blank")
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	errs, err := cmd.StderrPipe()
	must(t, err)
	must(t, cmd.Start())
	t.Cleanup(func() { // with its children, which write into the directory
		_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL)
		_ = cmd.Wait()
	})
	address := ""
	lines := bufio.NewScanner(errs)
	for address == "" && lines.Scan() {
		_, address, _ = strings.Cut(lines.Text(), "DevTools listening on ws://")
	}
	go func() {
		for lines.Scan() { // so that Chromium can print
		}
	}()
	host, _, _ := strings.Cut(address, "/")
	request, err := http.NewRequestWithContext(t.Context(), http.MethodPut, "http://"+host+"/json/new?about:blank", nil)
	must(t, err)
	response, err := http.DefaultClient.Do(request)
	must(t, err)
	defer response.Body.Close()
	var page struct {
		Address string `json:"webSocketDebuggerUrl"`
	}
	must(t, json.NewDecoder(response.Body).Decode(&page))
	conn, _, err := websocket.Dial(t.Context(), page.Address, nil)
	must(t, err)
	conn.SetReadLimit(64 << 20)
	t.Cleanup(func() { _ = conn.CloseNow() })
	b := &Browser{t: t, page: conn}
	for _, domain := range []string{"Runtime", "Log", "Network", "Page"} {
		b.Call(domain+".enable", map[string]any{}, nil)
	}
	return b
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// message is an answer or an event of the protocol.
type message struct {
	ID     int
	Method string // of an event
	Params json.RawMessage
	Error  json.RawMessage
	Result json.RawMessage
}

// Call performs a method of the DevTools protocol and decodes its result into into, unless that is nil.
func (b *Browser) Call(method string, params map[string]any, into any) {
	b.t.Helper()
	b.last++
	must(b.t, wsjson.Write(b.t.Context(), b.page, map[string]any{"id": b.last, "method": method, "params": params}))
	for {
		var m message
		must(b.t, wsjson.Read(b.t.Context(), b.page, &m))
		switch {
		case m.ID != b.last:
			b.event(m)
		case m.Error != nil && method == "Runtime.evaluate" && strings.Contains(string(m.Error), "navigated or closed"):
			return // another page has replaced the one of the expression: it has no value
		case m.Error != nil:
			b.t.Fatalf("%s: %s", method, m.Error)
		default:
			if into != nil {
				must(b.t, json.Unmarshal(m.Result, into))
			}
			return
		}
	}
}

// event records what an event says of the page.
func (b *Browser) event(m message) {
	var p struct {
		Type    string
		Args    []struct{ Value any }
		Entry   struct{ Level, Text, URL string }
		Request struct{ URL string }

		Response struct {
			Status int
			URL    string
		}

		ExceptionDetails struct {
			Text      string
			Exception struct{ Description string }
		}
	}
	must(b.t, json.Unmarshal(m.Params, &p))
	switch m.Method {
	case "Runtime.consoleAPICalled":
		if p.Type == "error" || p.Type == "warning" {
			b.Complaints = append(b.Complaints, fmt.Sprint(p.Type, p.Args))
		}
	case "Runtime.exceptionThrown":
		b.Complaints = append(b.Complaints, p.ExceptionDetails.Text+" "+p.ExceptionDetails.Exception.Description)
	case "Log.entryAdded":
		if p.Entry.Level == "error" || p.Entry.Level == "warning" {
			b.Complaints = append(b.Complaints, p.Entry.Text+" "+p.Entry.URL)
		}
	case "Network.requestWillBeSent":
		b.Requested = append(b.Requested, p.Request.URL)
	case "Network.responseReceived":
		if p.Type == "Document" && p.Response.Status == http.StatusInternalServerError { // no wait can end well
			b.t.Fatalf("%s answers %d; the log of the server has the reason", p.Response.URL, p.Response.Status)
		}
	}
}

// Open loads a page.
func (b *Browser) Open(url string) {
	b.t.Helper()
	b.Call("Page.navigate", map[string]any{"url": url}, nil)
	b.Await("the page", `document.readyState === "complete" && location.href !== "about:blank"`)
}

// Evaluate returns the value of an expression. It waits for a promise.
func (b *Browser) Evaluate(expression string) (value any) {
	b.t.Helper()
	var answer struct {
		Result           struct{ Value any }
		ExceptionDetails json.RawMessage
	}
	b.Call("Runtime.evaluate", map[string]any{"expression": expression, "returnByValue": true, "awaitPromise": true},
		&answer)
	return answer.Result.Value
}

// Await waits until an expression is true.
func (b *Browser) Await(what, expression string) {
	b.t.Helper()
	if held, _ := testenv.Wait(func() bool { return b.Evaluate(expression) == true }); !held {
		b.t.Fatalf("never: %s; the page has: %v", what, b.Evaluate("document.body.innerText.slice(0, 600)"))
	}
}

// Type presses the keys of a text, as fast as a person.
func (b *Browser) Type(text string) {
	b.t.Helper()
	for _, r := range text {
		b.Press(string(r), "Key"+strings.ToUpper(string(r)), int(strings.ToUpper(string(r))[0]), string(r))
		time.Sleep(50 * time.Millisecond)
	}
}

// Press presses one key, with its code, its number and the text that it writes.
func (b *Browser) Press(key, code string, number int, text string) {
	b.t.Helper()
	for _, kind := range []string{"keyDown", "keyUp"} {
		b.Call("Input.dispatchKeyEvent", map[string]any{"key": key, "code": code, "text": text,
			"windowsVirtualKeyCode": number, "type": kind}, nil)
	}
}

// Size sets the size of the page in pixels.
func (b *Browser) Size(width, height int) {
	b.t.Helper()
	b.Call("Emulation.setDeviceMetricsOverride", map[string]any{"width": width, "height": height, "deviceScaleFactor": 1,
		"mobile": false}, nil)
}

// Dark sets whether the user prefers dark pages.
func (b *Browser) Dark(dark bool) {
	b.t.Helper()
	scheme := "light"
	if dark {
		scheme = "dark"
	}
	b.Call("Emulation.setEmulatedMedia", map[string]any{"features": []map[string]string{
		{"name": "prefers-color-scheme", "value": scheme}}}, nil)
}

// Picture returns the visible part of the page as PNG.
func (b *Browser) Picture() []byte {
	b.t.Helper()
	var answer struct{ Data string }
	b.Call("Page.captureScreenshot", map[string]any{"format": "png"}, &answer)
	data, err := base64.StdEncoding.DecodeString(answer.Data)
	must(b.t, err)
	return data
}
