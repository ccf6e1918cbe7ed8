package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"net/http"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/coder/websocket"
	"github.com/coder/websocket/wsjson"

	"github.com/openberth/berth/api/compute"
	"github.com/openberth/berth/internal/libvirtd"
	"github.com/openberth/berth/internal/testenv"
)

// TestBrowserConsoles opens the display and the serial console of a guest in Chromium, with the URLs of the API: the
// picture arrives, and what is typed reaches the guest. A URL works once.
func TestBrowserConsoles(t *testing.T) {
	t.Parallel()
	testenv.Need(t, "chromium", "novnc", "node-xterm")
	virt := libvirtd.Start(t)
	dir := t.TempDir()
	images := start(t, []string{"image"}, "image", "--config-file", machineless(t, dir), "--data-dir", dir+"/images",
		"--listen", "127.0.0.1:0")
	glance := "\n[glance]\nendpoint_override = " + images.urls["image"] + "\n"
	f := newFleet(t, aliases+pciInPlacement+glance)
	l := &libvirtHost{fleet: f, virt: virt, instances: virt.GuestDir(t)}
	l.more = glance
	f.startAgent("cmp1", l.conf())
	disk := dir + "/echo.img"
	writeFile(t, disk, string(libvirtd.EchoSector()))
	image := addImage(t, disk, images.urls["image"])
	c := f.compute.compute()
	flavor, err := c.CreateFlavor(t.Context(), compute.CreateFlavor{Name: "small", VCPUs: 1, RAM: 64, Disk: 1})
	must(t, err)
	s, err := c.CreateServer(t.Context(), compute.CreateServer{Name: "echo", Flavor: flavor.ID, Image: image})
	must(t, err)
	l.awaitConsole(s.ID, "ready>")
	open := func(protocol, typ string) string {
		t.Helper()
		var answer struct {
			Console struct{ URL string } `json:"remote_console"`
		}
		_, err := c.REST.Do(t.Context(), http.MethodPost, "/v2.1/servers/"+s.ID+"/remote-consoles",
			map[string]any{"remote_console": map[string]string{"protocol": protocol, "type": typ}}, &answer)
		must(t, err)
		return answer.Console.URL
	}
	b := startChromium(t)

	display := open("vnc", "novnc")
	b.open(display)
	b.awaits("the picture of the guest", `(() => { const c = document.querySelector("canvas");
		return c !== null && c.width >= 640 && c.getContext("2d").getImageData(0, 0, c.width, c.height).data
			.some((v, i) => i % 4 !== 3 && v > 0); })()`)
	b.evaluate(`document.querySelector("canvas").focus()`)
	b.types("picture")
	l.awaitConsole(s.ID, "picture")
	b.open(display)
	b.awaits("a used URL is refused", `/disconnected|went wrong|closed/i.test(document.body.innerText)`)

	b.open(open("serial", "serial"))
	b.awaits("the serial console is open", `document.getElementById("state").textContent === "Connected"`)
	b.types("serial")
	l.awaitConsole(s.ID, "pictureserial")
	b.awaits("the guest's echo", `terminal.selectAll(), terminal.getSelection().includes("serial")`)
	f.delete(compute.Server{ID: s.ID})
	b.awaits("the console ends with the guest", `document.getElementById("state").textContent.startsWith("Closed")`)
}

// browser is Chromium without a window, driven by its DevTools protocol.
type browser struct {
	t    *testing.T
	page *websocket.Conn
	last int // id of the last call
}

// startChromium starts Chromium with one page.
func startChromium(t *testing.T) *browser {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "chromium", "--headless=new", "--no-sandbox", "--disable-gpu",
		"--disable-dev-shm-usage", "--remote-debugging-port=0", "--user-data-dir="+t.TempDir(), "about:blank")
	errs, err := cmd.StderrPipe()
	must(t, err)
	must(t, cmd.Start())
	t.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
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
	conn.SetReadLimit(16 << 20)
	t.Cleanup(func() { _ = conn.CloseNow() })
	return &browser{t: t, page: conn}
}

// call performs a method of the DevTools protocol and decodes its result.
func (b *browser) call(method string, params map[string]any, into any) {
	b.t.Helper()
	b.last++
	must(b.t, wsjson.Write(b.t.Context(), b.page, map[string]any{"id": b.last, "method": method, "params": params}))
	for {
		var answer struct {
			ID     int
			Error  json.RawMessage
			Result json.RawMessage
		}
		must(b.t, wsjson.Read(b.t.Context(), b.page, &answer))
		switch {
		case answer.ID != b.last: // an event
		case answer.Error != nil:
			b.t.Fatalf("%s: %s", method, answer.Error)
		default:
			if into != nil {
				must(b.t, json.Unmarshal(answer.Result, into))
			}
			return
		}
	}
}

// open loads a page.
func (b *browser) open(url string) {
	b.t.Helper()
	b.call("Page.navigate", map[string]any{"url": url}, nil)
	b.awaits("the page", `document.readyState === "complete" && location.href !== "about:blank"`)
}

// evaluate returns the value of an expression.
func (b *browser) evaluate(expression string) (value any) {
	b.t.Helper()
	var answer struct{ Result struct{ Value any } }
	b.call("Runtime.evaluate", map[string]any{"expression": expression, "returnByValue": true}, &answer)
	return answer.Result.Value
}

// awaits waits until an expression is true.
func (b *browser) awaits(what, expression string) {
	b.t.Helper()
	eventually(b.t, what, func() (bool, error) {
		if b.evaluate(expression) == true {
			return true, nil
		}
		return false, fmt.Errorf("the page has: %v", b.evaluate("document.body.innerText.slice(0, 300)"))
	})
}

// types presses keys.
func (b *browser) types(text string) {
	b.t.Helper()
	for _, r := range text {
		key := map[string]any{"key": string(r), "code": "Key" + strings.ToUpper(string(r)), "text": string(r),
			"windowsVirtualKeyCode": int(strings.ToUpper(string(r))[0])}
		for _, kind := range []string{"keyDown", "keyUp"} {
			key["type"] = kind
			b.call("Input.dispatchKeyEvent", key, nil)
		}
		time.Sleep(50 * time.Millisecond) // as a person types: the BIOS keeps few keys
	}
}
