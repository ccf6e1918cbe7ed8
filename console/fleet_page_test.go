package console

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/openberth/berth/console/view"
	"github.com/openberth/berth/internal/browser"
	"github.com/openberth/berth/internal/testenv"
)

// checks are expressions of what every page has; each returns what is wrong.
var checks = map[string]string{
	"wider than the window": `document.documentElement.scrollWidth > innerWidth ?
		document.documentElement.scrollWidth : ""`,
	"headings of first level": `document.querySelectorAll("h1").length === 1 ? "" :
		document.querySelectorAll("h1").length`,
	"inline styles": `document.querySelectorAll("[style]:not(.tip):not(.gap td)").length || ""`,
	"ids that are used twice": `[...document.querySelectorAll("[id]")].map((e) => e.id)
		.filter((id, i, all) => all.indexOf(id) !== i).join()`,
	"inputs without label": `[...document.querySelectorAll("input:not([type=hidden])")]
		.filter((e) => !e.labels.length).length || ""`,
	"drawings without a name": `[...document.querySelectorAll("svg")]
		.filter((e) => !e.closest("[aria-hidden], [aria-label]")).length || ""`,
	"cells without a scope": `[...document.querySelectorAll("th")].filter((e) => !e.scope).length || ""`,
	"text smaller than 11 pixels": `[...document.querySelectorAll("main *")].filter((e) => e.checkVisibility() &&
		[...e.childNodes].some((n) => n.nodeType === 3 && n.data.trim()) &&
		parseFloat(getComputedStyle(e).fontSize) < 11).length || ""`,
	"text with too little contrast": `(() => {
		const rgb = (c) => c.match(/[\d.]+/g).map(Number);
		const lum = (c) => rgb(c).slice(0, 3).map((v) => (v /= 255) <= .04045 ? v / 12.92 : ((v + .055) / 1.055) ** 2.4)
			.reduce((sum, v, i) => sum + v * [.2126, .7152, .0722][i], 0);
		const ground = (e) => { for (; e; e = e.parentElement) { const c = getComputedStyle(e).backgroundColor;
			if (rgb(c)[3] !== 0) return c; } return "rgb(255, 255, 255)"; };
		return [...document.querySelectorAll("body *:not(svg *)")].filter((e) => e.checkVisibility() &&
			[...e.childNodes].some((n) => n.nodeType === 3 && n.data.trim())).filter((e) => {
			const [a, b] = [lum(getComputedStyle(e).color), lum(ground(e))].sort((x, y) => y - x);
			return (a + .05) / (b + .05) < 4.5; }).map((e) => e.textContent.trim().slice(0, 40)).join("; "); })()`,
}

// check fails for what is wrong on a page.
func check(t *testing.T, b *browser.Browser, site *site) {
	t.Helper()
	for what, expression := range checks {
		if got := b.Evaluate(expression); got != "" {
			t.Errorf("%v: %s: %v", b.Evaluate("location.pathname"), what, got)
		}
	}
	for _, complaint := range b.Complaints {
		t.Errorf("%v: %s", b.Evaluate("location.pathname"), complaint)
	}
	b.Complaints = nil
	for _, url := range b.Requested {
		if !strings.HasPrefix(url, site.URL) && !strings.HasPrefix(url, "about:") {
			t.Errorf("a page requested %s", url)
		}
	}
}

// The fleet page shows each host with its devices and its condition, at both widths and in both themes; keys move along
// rows and cells; the states are in the address.
func TestFleetPage(t *testing.T) {
	testenv.Need(t, "chromium")
	s := newSite(t, WithToken, func() view.Source { return made(60) })
	b := browser.Start(t)
	b.Size(1280, 800)
	s.signIn(b, "admin", "/fleet")
	for _, width := range []int{1280, 390} {
		for _, dark := range []bool{false, true} {
			b.Size(width, 800)
			b.Dark(dark)
			b.Open(s.URL + "/fleet?group=aggregate")
			check(t, b, s)
			picture(t, b, fmt.Sprintf("fleet-%d-%v", width, dark))
		}
	}
	b.Size(1280, 800)
	b.Open(s.URL + "/fleet")
	if n := b.Evaluate(`document.querySelectorAll("tr[data-row]").length`); n != 60.0 {
		t.Errorf("%v rows", n)
	}
	for _, want := range []string{"60 of 60 hosts", "3 down", "3 with conditions", "3 disabled", "3 silent"} {
		if text := b.Evaluate("document.body.innerText").(string); !strings.Contains(text, want) {
			t.Errorf("the page lacks %q: %s", want, text)
		}
	}
	label := `document.activeElement.getAttribute("aria-label")`
	b.Press("j", "KeyJ", 'J', "j")
	b.Press("ArrowRight", "ArrowRight", 39, "")
	if got := b.Evaluate(label); got != "CUSTOM_ACCEL 0000:14:00.0: 1 held by db-00000" {
		t.Errorf("the first cell is %v", got)
	}
	if got := b.Evaluate(`document.querySelector(".tip").textContent`); got != b.Evaluate(label) {
		t.Errorf("the tip is %v", got)
	}
	if got := b.Evaluate(`document.querySelectorAll(".lit").length`); got != 1.0 {
		t.Errorf("%v devices of the server are marked", got)
	}
	b.Press("/", "Slash", 191, "/")
	b.Type("fast 0000:15 project-4")
	b.Press("Enter", "Enter", 13, "\r")
	b.Await("the search", `location.search.startsWith("?q=") && document.readyState === "complete"`)
	if n := b.Evaluate(`document.querySelectorAll("tr[data-row]").length`); n != 8.0 {
		t.Errorf("%v rows with the project", n)
	}
	b.Open(s.URL + "/fleet?state=off&sort=most+free&group=class")
	if n := b.Evaluate(`document.querySelectorAll("tr[data-row]").length`); n != 3.0 {
		t.Errorf("%v rows that are disabled", n)
	}
	check(t, b, s)
	b.Open(s.URL + "/fleet?q=nothing-has-this")
	check(t, b, s)
}

// With 10,000 hosts the page has only the rows near the visible part, also after a jump, and none is missing.
func TestFleetPageOfManyHosts(t *testing.T) {
	testenv.Need(t, "chromium")
	source := made(10000)
	s := newSite(t, WithToken, func() view.Source { return source })
	b := browser.Start(t)
	b.Size(1280, 800)
	s.signIn(b, "admin", "/fleet")
	testenv.Until(t, "the fleet was read", func() bool { // a page waits for eight seconds
		b.Open(s.URL + "/fleet")
		return b.Evaluate(`document.querySelector("tr[data-row]") !== null`) == true
	})
	b.Complaints = nil // a page that has waited is a 503
	b.Await("the first paint", `performance.getEntriesByName("first-contentful-paint").length === 1`)
	painted := b.Evaluate(`performance.getEntriesByName("first-contentful-paint")[0].startTime`)
	answered := b.Evaluate(`performance.getEntriesByType("navigation")[0].responseEnd`)
	visible := `[...document.querySelectorAll("tr[data-row]")].filter((r) => { const b = r.getBoundingClientRect();
		return b.bottom > 100 && b.top < innerHeight; }).map((r) => r.dataset.row)`
	for _, at := range []float64{0.5, 0.25, 1, 0} {
		b.Evaluate(fmt.Sprintf(`scrollTo(0, %v * (document.documentElement.scrollHeight - innerHeight))`, at))
		b.Await("rows at the new place", `(`+visible+`).length > 5`)
		if n := b.Evaluate(`document.querySelectorAll("tr[data-row]").length`).(float64); n > 160 {
			t.Errorf("%v rows are in the page", n)
		}
	}
	b.Evaluate(`scrollTo(0, 0)`)
	b.Await("the first host", `(`+visible+`)[0] === "cmp-00001"`)
	steps := b.Evaluate(`new Promise((done) => { const times = []; let last = performance.now(), n = 0;
		const step = (now) => { times.push(now - last); last = now;
			if (++n > 120) { done(times.sort((a, b) => a - b)); return; }
			scrollBy(0, 300); requestAnimationFrame(step); }; requestAnimationFrame(step); })`).([]any)
	t.Logf("10,000 hosts: the page was there after %.0f ms, painted after %.0f ms; a step of 300 pixels takes %.0f ms, "+
		"at most %.0f ms", answered, painted, steps[len(steps)/2], steps[len(steps)-1])
	check(t, b, s)
	b.Evaluate(`scrollTo(0, document.documentElement.scrollHeight)`)
	b.Await("the last host", `(`+visible+`).includes("cmp-10000")`)
	for from, want := range map[int]string{9960: "cmp-09961", 20000: "cmp-09961", -5: "cmp-00001"} {
		b.Open(fmt.Sprintf("%s/fleet?from=%d", s.URL, from))
		b.Await("the window of the address", `(`+visible+`).includes("`+want+`")`)
	}
}

// BenchmarkFleet makes the page of 10,000 hosts and one further window of it.
func BenchmarkFleet(b *testing.B) {
	source := made(10000)
	began := time.Now()
	cloud := view.New(source)
	b.ReportMetric(float64(time.Since(began).Milliseconds()), "ms/read")
	for _, q := range []view.FleetQuery{{}, {Group: "aggregate"}, {Find: "fast project-3"}, {From: 6000}} {
		b.Run(fmt.Sprintf("group=%s,find=%s,from=%d", q.Group, strings.ReplaceAll(q.Find, " ", "+"), q.From),
			func(b *testing.B) {
				for b.Loop() {
					if f := cloud.Table(q); len(f.Lines) != view.Window {
						b.Fatalf("%d lines", len(f.Lines))
					}
				}
			})
	}
}
