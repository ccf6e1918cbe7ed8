package coexist

import (
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/url"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/openberth/berth/internal/bench"
	"github.com/openberth/berth/internal/databases"
	"github.com/openberth/berth/internal/testenv"
	"github.com/openberth/berth/placement/shadow"
)

// TestShadow runs `berth placement shadow` in front of OpenStack's Placement on MariaDB, with an account that may only
// read. Random worlds are written and read through it. No answer may differ but as the document says.
func TestShadow(t *testing.T) {
	testenv.Need(t, "OpenStack's Placement", "MariaDB")
	server := databases.MariaDB(t)
	s := &site{t: t, url: server.Database(t)}
	original := s.startOriginal()
	reader, err := url.Parse(s.url)
	if err != nil {
		t.Fatal(err)
	}
	reader.User = url.UserPassword("reader", "reader")
	for _, statement := range []string{"CREATE USER reader@'%' IDENTIFIED BY 'reader'",
		"GRANT SELECT ON " + strings.Trim(reader.Path, "/") + ".* TO reader@'%'"} {
		if _, err := server.Admin(t).Exec(statement); err != nil {
			t.Fatal(err)
		}
	}
	report := filepath.Join(t.TempDir(), "report.json")
	front := s.add(startShadow(t, reader.String(), original.Addr, report))
	w := &shadowWorld{t: t, url: "http://" + front.Addr, chance: rand.New(rand.NewPCG(1, *first))}
	for range 4 {
		w.build()
		for range 60 {
			w.read()
		}
		w.write()
	}
	reads := int64(w.reads)
	var p shadow.Report
	testenv.Until(t, "all reads are compared", func() error {
		if p, err = shadow.ReadReport(report); err != nil {
			return err
		}
		done := p.Equal
		for _, n := range p.NotCompared {
			done += n
		}
		for _, d := range p.Differences {
			done += d.Count
		}
		if done < reads {
			return fmt.Errorf("%d of %d", done, reads)
		}
		return nil
	})
	t.Logf("%d equal, known %v, not compared %v", p.Equal, p.Known, p.NotCompared)
	if p.Equal < reads*9/10 {
		t.Errorf("only %d of %d reads were compared: %v", p.Equal, reads, p.NotCompared)
	}
	for _, d := range p.Differences {
		t.Errorf("GET %s (%s), first %s: %q\n%+v\n%+v", d.Smallest, d.Version, d.Target, d.Lines, d.Original, d.Berth)
	}
	w.latency(original.Addr, front.Addr)
}

// startShadow starts a shadow of the Placement at an address.
func startShadow(t *testing.T, database, original, report string) (*server, error) {
	t.Helper()
	dir := t.TempDir()
	conf, err := bench.Configure(dir, database, "[oslo_policy]", "enforce_scope = false", "[berth]",
		fmt.Sprint("index_refresh_interval = ", interval.Seconds()))
	if err != nil {
		return nil, err
	}
	p, err := bench.StartPlacement(filepath.Join(dir, "shadow.log"), program, "placement", "shadow", "--config-file", conf,
		"--data-dir", dir, "--listen", "127.0.0.1:0", "--of", "http://"+original, "--report", report)
	if err != nil {
		return nil, err
	}
	one := &server{p, "the shadow", true}
	testenv.Until(t, "Berth is ready", func() error {
		response, err := http.Get("http://" + p.Addr + "/healthz")
		if err != nil {
			return err
		}
		defer response.Body.Close()
		body, err := io.ReadAll(response.Body)
		if err == nil && !strings.Contains(string(body), `"berth_ready":true`) {
			err = fmt.Errorf("%s", body)
		}
		return err
	})
	return one, nil
}

// shadowWorld writes and reads random providers and allocations.
type shadowWorld struct {
	t         *testing.T
	url       string
	chance    *rand.Rand
	providers []string
	consumers []string
	reads     int
}

func (w *shadowWorld) oneIn(n int) bool           { return w.chance.IntN(n) == 0 }
func (w *shadowWorld) pick(list ...string) string { return list[w.chance.IntN(len(list))] }

// sublist returns some of the items.
func (w *shadowWorld) sublist(list ...string) (some []string) {
	for _, one := range list {
		if w.oneIn(3) {
			some = append(some, one)
		}
	}
	return some
}

// send sends a request and returns the status and the body.
func (w *shadowWorld) send(method, target, version string, body any) (int, []byte) {
	w.t.Helper()
	var reader io.Reader = http.NoBody
	if body != nil {
		text, err := json.Marshal(body)
		if err != nil {
			w.t.Fatal(err)
		}
		reader = strings.NewReader(string(text))
	}
	r, err := http.NewRequestWithContext(w.t.Context(), method, w.url+target, reader)
	if err != nil {
		w.t.Fatal(err)
	}
	r.Header.Set("X-Auth-Token", "admin")
	r.Header.Set("Content-Type", "application/json")
	if version != "" {
		r.Header.Set("OpenStack-API-Version", "placement "+version)
	}
	response, err := http.DefaultClient.Do(r)
	if err != nil {
		w.t.Fatal(err)
	}
	defer response.Body.Close()
	answer, err := io.ReadAll(response.Body)
	if err != nil {
		w.t.Fatal(err)
	}
	return response.StatusCode, answer
}

var shadowClasses = []string{"VCPU", "MEMORY_MB", "CUSTOM_X"}
var shadowTraits = []string{"HW_CPU_X86_VMX", "CUSTOM_T", "MISC_SHARES_VIA_AGGREGATE"}
var shadowAggregates = []string{"aaaaaaaa-0000-0000-0000-000000000001", "aaaaaaaa-0000-0000-0000-000000000002"}

// build adds a few trees of providers, and claims.
func (w *shadowWorld) build() {
	const v = "1.39"
	w.send("PUT", "/resource_classes/CUSTOM_X", v, nil)
	w.send("PUT", "/traits/CUSTOM_T", v, nil)
	var tree []string
	for range 6 {
		id := uuid.NewString()
		made := map[string]any{"uuid": id, "name": "n" + id}
		if len(tree) > 0 && !w.oneIn(3) {
			made["parent_provider_uuid"] = w.pick(tree...)
		}
		if status, body := w.send("POST", "/resource_providers", v, made); status != 200 {
			w.t.Fatalf("%d %s", status, body)
		}
		tree = append(tree, id)
		stock := map[string]any{}
		for _, class := range w.sublist(append(shadowClasses, shadowClasses...)...) {
			stock[class] = map[string]any{"total": 3 + w.chance.IntN(6), "reserved": w.chance.IntN(2),
				"allocation_ratio": []float64{1, 1.5, 2}[w.chance.IntN(3)]}
		}
		w.guarded(id, "inventories", map[string]any{"inventories": stock})
		w.guarded(id, "traits", map[string]any{"traits": append([]string{}, w.sublist(shadowTraits...)...)})
		w.guarded(id, "aggregates", map[string]any{"aggregates": append([]string{}, w.sublist(shadowAggregates...)...)})
	}
	w.providers = append(w.providers, tree...)
	for range 4 {
		w.claim()
	}
}

// guarded replaces a part of a provider, with its generation.
func (w *shadowWorld) guarded(id, part string, body map[string]any) {
	var doc struct{ Generation int }
	_, text := w.send("GET", "/resource_providers/"+id, "1.39", nil)
	w.reads++
	if err := json.Unmarshal(text, &doc); err != nil {
		w.t.Fatal(err)
	}
	body["resource_provider_generation"] = doc.Generation
	if status, answer := w.send("PUT", "/resource_providers/"+id+"/"+part, "1.39", body); status != 200 {
		w.t.Fatalf("%s: %d %s", part, status, answer)
	}
}

// claim tries to allocate something for a new consumer.
func (w *shadowWorld) claim() {
	id := uuid.NewString()
	status, _ := w.send("PUT", "/allocations/"+id, "1.39", map[string]any{
		"allocations": map[string]any{w.pick(w.providers...): map[string]any{"resources": map[string]int{
			w.pick(shadowClasses...): 1 + w.chance.IntN(2)}}},
		"project_id": w.pick("p0", "p1"), "user_id": "u", "consumer_generation": nil, "consumer_type": "INSTANCE"})
	if status == 204 {
		w.consumers = append(w.consumers, id)
	}
}

// write releases consumers and claims again.
func (w *shadowWorld) write() {
	for len(w.consumers) > 2 {
		w.send("DELETE", "/allocations/"+w.consumers[0], "1.39", nil)
		w.consumers = w.consumers[1:]
	}
	w.claim()
}

// read sends a random GET at a random microversion.
func (w *shadowWorld) read() {
	version := ""
	if !w.oneIn(10) {
		version = "1." + strconv.Itoa(w.chance.IntN(40))
	}
	if w.oneIn(2) {
		version = "1.39"
	}
	rp := "/resource_providers/" + w.pick(append(w.providers, uuid.NewString())...)
	target := w.pick("/", "/resource_classes", "/traits?name=startswith:CUSTOM", "/traits?associated=true", "/nothing",
		"/resource_classes/CUSTOM_X", "/resource_providers", rp, rp+"/inventories", rp+"/usages", rp+"/allocations",
		rp+"/traits", rp+"/aggregates", rp+"/inventories/VCPU", "/usages?project_id="+w.pick("p0", "p1"), "/usages",
		"/resource_providers?"+w.filters(""), "/resource_providers?"+w.filters(""), "candidates", "candidates", "candidates",
		"candidates", "candidates", "candidates", "/allocations/"+w.pick(append(w.consumers, uuid.NewString())...))
	if target == "candidates" {
		target = "/allocation_candidates?" + w.query()
	}
	w.send("GET", target, version, nil)
	w.reads++
}

// filters returns the parameters of one request group.
func (w *shadowWorld) filters(suffix string) string {
	list := []string{"resources" + suffix + "=" + w.pick(shadowClasses...) + ":" + strconv.Itoa(1+w.chance.IntN(3))}
	if w.oneIn(4) {
		list[0] += "," + w.pick(shadowClasses...) + ":1"
	}
	if w.oneIn(3) {
		list = append(list, "required"+suffix+"="+w.pick("", "!")+w.pick(shadowTraits...))
	}
	if w.oneIn(4) {
		list = append(list, "member_of"+suffix+"="+w.pick("", "in:", "!")+w.pick(shadowAggregates...))
	}
	if w.oneIn(6) {
		list = append(list, "in_tree"+suffix+"="+w.pick(w.providers...))
	}
	return strings.Join(list, "&")
}

// query returns the parameters of a query for candidates.
func (w *shadowWorld) query() string {
	var list []string
	for _, suffix := range []string{"", "1", "_A"} {
		if w.oneIn(2) {
			list = append(list, w.filters(suffix))
		}
	}
	if len(list) != 1 || w.oneIn(5) {
		list = append(list, "group_policy="+w.pick("none", "isolate"))
	}
	if w.oneIn(3) {
		list = append(list, "limit="+strconv.Itoa(1+w.chance.IntN(4)))
	}
	return strings.Join(list, "&")
}

// latency logs the time of answers through the shadow and that of the original alone, in turn. It checks no time: other
// work on the machine changes both.
func (w *shadowWorld) latency(original, front string) {
	const n = 300
	took := [2][]time.Duration{}
	conns := []*bench.Conn{bench.Dial(original), bench.Dial(front)}
	for i := range n {
		for side, c := range conns {
			began := time.Now()
			if _, err := c.Want(200, "GET", "/resource_providers/"+w.providers[i%len(w.providers)], nil); err != nil {
				w.t.Fatal(err)
			}
			took[side] = append(took[side], time.Since(began))
		}
	}
	for side, c := range conns {
		c.Close()
		slices.Sort(took[side])
	}
	for _, q := range []int{n / 2, n * 99 / 100} {
		a, b := took[0][q], took[1][q]
		w.t.Logf("quantile %d/%d: the original %s, through the shadow %s: %+.2f ms, ratio %.2f", q, n, a, b,
			float64(b-a)/1e6, float64(b)/float64(a))
	}
}
