package console

import (
	"net/http"
	"testing"

	"github.com/openberth/berth/console/view"
	"github.com/openberth/berth/internal/browser"
	"github.com/openberth/berth/internal/testenv"
)

// apart is what is wrong with marks that overlap the devices of their row; else empty.
const apart = `[...document.querySelectorAll("tr[data-row]")].filter((row) => { const mark = row.querySelector("th .mk");
	return mark && mark.getBoundingClientRect().right > row.querySelector("a.cell").getBoundingClientRect().left; })
	.map((row) => row.dataset.row).join()`

// A printed fleet says how many rows it lacks, has no empty pages for them, and can have all of them.
func TestFleetOnPaper(t *testing.T) {
	testenv.Need(t, "chromium")
	s := newSite(t, WithToken, func() view.Source { return made(2100) })
	b := browser.Start(t)
	b.Size(1280, 800)
	s.signIn(b, "admin", "/fleet")
	b.Call("Emulation.setEmulatedMedia", map[string]any{"media": "print"}, nil)
	b.Size(703, 1000)
	rows := `document.querySelectorAll("[data-row]").length`
	for _, c := range []struct {
		path, all, says string
	}{
		{"/fleet", `(n) => n >= 60 && n < 200`, "This paper has ${n} of 2 100 rows."},
		{"/fleet?all=yes", `(n) => n === 2000`, "These are the first 2 000 of 2 100 rows."},
		{"/fleet?all=yes&q=rack-b", `(n) => n > 60 && n < 200`, ""},
	} {
		b.Open(s.URL + c.path)
		b.Await("the rows", `(`+c.all+`)(`+rows+`) && ![...document.querySelectorAll("[data-from]")].some((e) =>
			e.dataset.state && e.dataset.state !== "full")`)
		b.Evaluate(`dispatchEvent(new Event("beforeprint"))`)
		said := `(document.getElementById("part")?.innerText ?? "")`
		if b.Evaluate(said+".startsWith(((n) => `"+c.says+"`)("+rows+`))`) != true || c.says == "" && b.Evaluate(said) != "" {
			t.Errorf("%s says %v of %v rows", c.path, b.Evaluate(said), b.Evaluate(rows))
		}
		if got := b.Evaluate(`document.documentElement.scrollHeight / ` + rows).(float64); got > 40 {
			t.Errorf("%s: %.0f pixels for a row", c.path, got)
		}
		check(t, b, s)
	}
}

// Printed pages have all columns on A4, heads above their columns, and at 390 pixels no mark is behind a device.
func TestPagesOnPaperAndPhone(t *testing.T) {
	testenv.Need(t, "chromium")
	s := newSite(t, WithToken, func() view.Source { return made(60) })
	s.withServers()
	s.apis["/berth/v1/usage-history"] = http.HandlerFunc(usageHistory)
	b := browser.Start(t)
	s.signIn(b, "admin", "/fleet")
	b.Size(390, 800)
	b.Open(s.URL + "/fleet")
	if got := b.Evaluate(apart); got != "" {
		t.Errorf("marks are behind devices: %v", got)
	}
	b.Open(s.URL + "/hosts/cmp-00004")
	if got := b.Evaluate(`[...document.querySelectorAll(".bands dt")].filter((name) => { const [a, b] = [name,
		name.nextElementSibling.nextElementSibling].map((e) => e.getBoundingClientRect());
		return a.right > b.left || a.bottom <= b.top || b.bottom <= a.top; }).map((e) => e.textContent).join()`); got != "" {
		t.Errorf("amounts are not beside their names: %v", got)
	}
	b.Call("Emulation.setEmulatedMedia", map[string]any{"media": "print"}, nil)
	b.Size(703, 1000) // A4 without margins
	for _, path := range []string{"/fleet?group=aggregate", "/hosts/cmp-00004", "/classes", "/servers/" + refusedID} {
		b.Open(s.URL + path)
		for what, expression := range map[string]string{
			"wider than the paper": `document.documentElement.scrollWidth > innerWidth ? "yes" : ""`,
			"tables are cut off": `[...document.querySelectorAll("table")].filter((e) =>
				e.getBoundingClientRect().right > innerWidth).length || ""`,
			"heads beside their columns": `[...document.querySelectorAll("table")].filter((table) => { const row =
				table.querySelector("tbody tr:not(.gr)"), cells = row ? [...row.cells] : [];
				return [...table.tHead.rows[0].cells].some((head, i) => head.checkVisibility() && cells[i] &&
					Math.abs(head.getBoundingClientRect().left - cells[i].getBoundingClientRect().left) > 1); }).length || ""`,
		} {
			if got := b.Evaluate(expression); got != "" {
				t.Errorf("%s: %s: %v", path, what, got)
			}
		}
		picture(t, b, "print")
	}
}
