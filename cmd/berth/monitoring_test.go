package main

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"go.yaml.in/yaml/v4"

	"github.com/openberth/berth/internal/testenv"
)

// TestMonitoring starts Debian's Prometheus with the rules of docs/monitoring on `berth up`, and sends it every query
// of the rules and of the dashboards. Each must be valid, and find series where the cloud has what it asks for.
func TestMonitoring(t *testing.T) {
	testenv.Need(t, "prometheus", "promtool")
	t.Parallel()
	const docs = "../../docs/monitoring"
	for _, check := range [][]string{{"check", "rules", "alerts.yml"}, {"test", "rules", "alerts.test.yml"},
		{"check", "config", "prometheus.yml"}} {
		cmd := exec.CommandContext(t.Context(), "promtool", check...)
		cmd.Dir = docs
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("promtool %v: %v\n%s", check, err, out)
		}
	}
	dir := t.TempDir()
	config := conf(t, machine(t, 1, 1), "[audit]", "interval = 1")
	services := []string{"placement", "compute", "network", "image", "audit"}
	d := start(t, services, "up", "--config-file", config, "--data-dir", filepath.Join(dir, "data"),
		"--listen-placement", "127.0.0.1:0", "--listen-compute", "127.0.0.1:0", "--listen-network", "127.0.0.1:0",
		"--listen-image", "127.0.0.1:0", "--listen-audit", "127.0.0.1:0")
	p := startPrometheus(t, dir, docs, d.urls)
	f := &fleet{t: t, dir: dir, placement: d, compute: d}
	f.server("one", "vf:1")
	f.server("two", "vf:9")
	empty := regexp.MustCompile(`aggregate|image_(images|cache)|network_(ports|agents)|lost_claims|conflicts|explain|` +
		`retries|database_errors|5\.\.`)
	testenv.Until(t, "two scrapes", func() (bool, error) {
		series, err := p.query(`count_over_time(berth_compute_servers[1h]) > 2`)
		return series > 0, err
	})
	testenv.Until(t, "an audit is complete", func() (bool, error) {
		series, err := p.query(`berth_audit_differences{rule="orphaned allocation"} == 0`)
		return series > 0, err
	})
	for _, q := range queries(t, docs) {
		series, err := p.query(q.text)
		switch {
		case err != nil:
			t.Errorf("%s: %s: %v", q.file, q.text, err)
		case series == 0 && !q.alert && !empty.MatchString(q.text):
			t.Errorf("%s: %s finds nothing", q.file, q.text)
		}
	}
	listed := documentedMetrics(t, docs)
	names, err := p.get("/api/v1/label/__name__/values", nil)
	must(t, err)
	var have []string
	must(t, json.Unmarshal(names, &have))
	for _, name := range have {
		name = regexp.MustCompile(`_(bucket|sum|count)$`).ReplaceAllString(name, "")
		if strings.HasPrefix(name, "berth_") && !slices.Contains(listed, name) {
			t.Errorf("docs/monitoring/README.md has no %s", name)
		}
	}
}

// query is a query of a file.
type query struct {
	file, text string
	alert      bool
}

// queries returns those of the rules and the dashboards.
func queries(t *testing.T, docs string) (all []query) {
	t.Helper()
	var rules struct {
		Groups []struct {
			Rules []struct{ Alert, Expr string }
		}
	}
	data, err := os.ReadFile(filepath.Join(docs, "alerts.yml"))
	must(t, err)
	must(t, yaml.Unmarshal(data, &rules))
	manual, err := os.ReadFile(filepath.Join(docs, "README.md"))
	must(t, err)
	for _, g := range rules.Groups {
		for _, r := range g.Rules {
			all = append(all, query{"alerts.yml", r.Expr, true})
			if !strings.Contains(string(manual), "\n### "+r.Alert+"\n") {
				t.Errorf("README.md does not explain %s", r.Alert)
			}
		}
	}
	for _, file := range []string{"cloud.json", "services.json"} {
		var board struct {
			Panels []struct{ Targets []struct{ Expr string } }
		}
		data, err := os.ReadFile(filepath.Join(docs, file))
		must(t, err)
		must(t, json.Unmarshal(data, &board))
		for _, p := range board.Panels {
			for _, target := range p.Targets {
				all = append(all, query{file, target.Expr, false})
			}
		}
	}
	if len(all) < 50 {
		t.Fatalf("only %d queries", len(all))
	}
	return all
}

// documentedMetrics returns the names of the metrics that README.md lists; those of every service once for each.
func documentedMetrics(t *testing.T, docs string) (names []string) {
	t.Helper()
	manual, err := os.ReadFile(filepath.Join(docs, "README.md"))
	must(t, err)
	for _, m := range regexp.MustCompile("(?m)^\\| `((?:berth|…)_[a-z_]+)` ").FindAllStringSubmatch(string(manual), -1) {
		rest, every := strings.CutPrefix(m[1], "…")
		if !every {
			names = append(names, m[1])
			continue
		}
		for _, service := range []string{"placement", "compute", "network", "image"} {
			names = append(names, "berth_"+service+rest)
		}
	}
	return names
}

// prometheusServer is a running Prometheus.
type prometheusServer struct{ url string }

// startPrometheus starts Prometheus with the configuration of docs for services at other addresses.
func startPrometheus(t *testing.T, dir, docs string, urls map[string]string) prometheusServer {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(docs, "prometheus.yml"))
	must(t, err)
	rules, err := filepath.Abs(filepath.Join(docs, "alerts.yml"))
	must(t, err)
	text := strings.NewReplacer("15s", "1s", "- alerts.yml", "- "+rules).Replace(string(data))
	for service, url := range urls {
		address := regexp.MustCompile(`(?m)[0-9.:]+ # ` + service + `$`)
		if !address.MatchString(text) {
			t.Fatalf("prometheus.yml has no address of %s", service)
		}
		text = address.ReplaceAllString(text, strings.TrimPrefix(url, "http://"))
	}
	config, listen := filepath.Join(dir, "prometheus.yml"), testenv.FreeAddress(t)
	must(t, os.WriteFile(config, []byte(text), 0o600))
	cmd := exec.CommandContext(t.Context(), "prometheus", "--config.file", config, "--storage.tsdb.path",
		filepath.Join(dir, "series"), "--web.listen-address", listen)
	log := &testenv.Buffer{}
	cmd.Stdout, cmd.Stderr = log, log
	must(t, cmd.Start())
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		if t.Failed() {
			t.Log(log)
		}
	})
	p := prometheusServer{"http://" + listen}
	testenv.Until(t, "Prometheus answers", func() (bool, error) {
		_, err := p.query("up")
		return err == nil, err
	})
	return p
}

// query returns the number of series that a query finds.
func (p prometheusServer) query(text string) (series int, err error) {
	data, err := p.get("/api/v1/query", url.Values{"query": {text}})
	if err != nil {
		return 0, err
	}
	var found struct{ Result []json.RawMessage }
	err = json.Unmarshal(data, &found)
	return len(found.Result), err
}

// get returns the data of an answer.
func (p prometheusServer) get(path string, q url.Values) (json.RawMessage, error) {
	client := http.Client{Timeout: testenv.Patience}
	response, err := client.Get(p.url + path + "?" + q.Encode())
	if err != nil {
		return nil, err
	}
	defer response.Body.Close()
	var answer struct {
		Status, Error string
		Data          json.RawMessage
	}
	if err := json.NewDecoder(response.Body).Decode(&answer); err != nil {
		return nil, err
	}
	if answer.Status != "success" {
		return nil, fmt.Errorf("%s: %s", response.Status, answer.Error)
	}
	return answer.Data, nil
}
