package auditor

import (
	"bytes"
	"context"
	"errors"
	"io"
	"log/slog"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"
	"unicode/utf8"

	"github.com/openberth/berth/api/host"
	"github.com/openberth/berth/fleet"
	"github.com/openberth/berth/fleet/read"
)

// cloud is a fake of what looks find.
type cloud struct {
	looks []read.Audited // one for each look; then the last one again
	err   error
	n     int
}

func (c *cloud) look(ctx context.Context) (read.Audited, error) {
	c.n++
	if len(c.looks) == 0 { // a service that does not answer
		<-ctx.Done()
		return read.Audited{}, ctx.Err()
	}
	return c.looks[min(c.n, len(c.looks))-1], c.err
}

func found(findings ...fleet.Finding) read.Audited { return read.Audited{Differences: findings} }

func orphan(id, evidence string) fleet.Finding {
	return fleet.Finding{Rule: fleet.Orphaned, Subject: id, Name: id, Host: "cmp1", Evidence: evidence, Kept: "no"}
}

// auditorOf returns an auditor of a cloud, and its log.
func auditorOf(c *cloud) (*Auditor, *bytes.Buffer) {
	var log bytes.Buffer
	return New(Options{Look: c.look, Every: 10 * time.Minute, Wait: time.Minute, Limit: 5 * time.Minute,
		Log: slog.New(slog.NewTextHandler(&log, nil))}), &log
}

// ask returns the status and the body of a path.
func ask(a *Auditor, path string) (int, string) {
	w := httptest.NewRecorder()
	a.Handler().ServeHTTP(w, httptest.NewRequest("GET", path, nil))
	body, _ := io.ReadAll(w.Result().Body)
	return w.Code, string(body)
}

// has checks lines of /metrics.
func has(t *testing.T, a *Auditor, lines ...string) {
	t.Helper()
	_, text := ask(a, "/metrics")
	for _, line := range lines {
		absent := strings.HasPrefix(line, "!")
		if strings.Contains(text, "\n"+strings.TrimPrefix(line, "!")) == absent {
			t.Errorf("%q in\n%s", line, text)
		}
	}
}

// Only what both looks of an audit show is counted, and logged once.
func TestDifferencesOfTwoLooks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		moving := orphan("moving", "a")
		c := &cloud{looks: []read.Audited{found(orphan("lost", "2 VCPU"), moving), found(orphan("lost", "2 VCPU"))}}
		a, log := auditorOf(c)
		has(t, a, "!berth_audit_differences", `berth_audit_looks_total{result="complete"} 0`,
			"berth_audit_overdue_seconds 1980")
		a.audit(t.Context())
		has(t, a, `berth_audit_differences{rule="orphaned allocation"} 1`, `berth_audit_differences{rule="over capacity"} 0`,
			`berth_audit_looks_total{result="complete"} 2`, "berth_audit_age_seconds 0")
		a.audit(t.Context())
		if n := strings.Count(log.String(), "difference found"); n != 1 || strings.Contains(log.String(), "moving") {
			t.Errorf("%d in %s", n, log)
		}
		c.looks, c.n = []read.Audited{found()}, 0
		a.audit(t.Context())
		has(t, a, `berth_audit_differences{rule="orphaned allocation"} 0`)
		if c.n != 1 || !strings.Contains(log.String(), `"difference gone" rule="orphaned allocation" subject=lost`) {
			t.Errorf("%d looks: %s", c.n, log)
		}
	})
}

// Looks that take long make no audit too old: neither the first one while it runs, nor the pauses between such audits.
func TestSlowLooks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		healthy := func() bool { return true }
		a := New(Options{Every: time.Minute, Wait: time.Minute, Limit: time.Hour, Log: slog.New(slog.DiscardHandler),
			Look: func(context.Context) (read.Audited, error) {
				time.Sleep(20 * time.Minute)
				if !healthy() {
					t.Error("too old during a look")
				}
				return found(orphan("lost", "2 VCPU")), nil
			}})
		healthy = func() bool { status, _ := ask(a, "/healthz"); return status == 200 }
		for range 2 {
			a.audit(t.Context())
			time.Sleep(a.Every)
		}
		if time.Sleep(100 * time.Minute); !healthy() {
			t.Error("too old before the time of three audits")
		}
		if time.Sleep(30 * time.Minute); healthy() {
			t.Error("not too old after the time of three audits")
		}
	})
}

// An audit that failed or was incomplete changes no difference, and the last complete one becomes old.
func TestIncompleteAudits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := &cloud{looks: []read.Audited{found(orphan("lost", "2 VCPU"))}}
		a, log := auditorOf(c)
		a.audit(t.Context())
		c.looks = []read.Audited{{Gaps: []fleet.Gap{{Part: fleet.Ports, Why: "503"}}}}
		a.audit(t.Context())
		c.err = errors.New("Placement does not answer")
		a.audit(t.Context())
		c.looks, c.err = nil, nil
		began := time.Now()
		a.audit(t.Context())
		if took := time.Since(began); took != 5*time.Minute {
			t.Errorf("a look that does not end took %s", took)
		}
		has(t, a, `berth_audit_differences{rule="orphaned allocation"} 1`, `berth_audit_looks_total{result="failed"} 2`,
			`berth_audit_looks_total{result="incomplete"} 1`, "berth_audit_age_seconds 300")
		if status, _ := ask(a, "/healthz"); status != 200 {
			t.Errorf("/healthz is %d too early", status)
		}
		time.Sleep(time.Hour)
		if status, text := ask(a, "/healthz"); status != 503 || !strings.Contains(text, "too old") {
			t.Errorf("/healthz: %d %s", status, text)
		}
		for _, text := range []string{`"audit incomplete" part=ports why=503`, "audit failed", "Placement does not answer"} {
			if !strings.Contains(log.String(), text) {
				t.Errorf("no %q in %s", text, log)
			}
		}
	})
}

// Run ends with its context, in a look as well as between two.
func TestRunEnds(t *testing.T) {
	for _, looks := range [][]read.Audited{nil, {found()}, {found(orphan("lost", "a"))}} {
		synctest.Test(t, func(t *testing.T) {
			a, log := auditorOf(&cloud{looks: looks})
			ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
			defer cancel()
			began := time.Now()
			a.Run(ctx)
			if took := time.Since(began); took != 30*time.Second || strings.Contains(log.String(), "failed") {
				t.Errorf("ended after %s: %s", took, log)
			}
		})
	}
}

// Where compute is Berth's, each complete audit replaces the conditions of hosts; beside Nova nothing is sent.
func TestConditionsOfHosts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		both := orphan("lost", strings.Repeat("é", 300))
		both.Host = "cmp1, cmp2"
		nowhere := orphan("b", "")
		nowhere.Host = ""
		list := []fleet.Finding{both, nowhere, orphan("c", "x"), orphan("d", "x"), orphan("e", "x")}
		c := &cloud{looks: []read.Audited{{Differences: list, Berth: true}}}
		a, log := auditorOf(c)
		var sent []host.FoundDifferences
		a.Report = func(_ context.Context, f host.FoundDifferences) error {
			sent = append(sent, f)
			return errors.New("503")
		}
		a.audit(t.Context())
		first := sent[0].Hosts["cmp1"]
		if len(sent[0].Hosts) != 2 || first.Count != 4 || len(first.First) != host.MaxDifferences ||
			first.First[1] != "orphaned allocation: c: x" || sent[0].Hosts["cmp2"].Count != 1 ||
			sent[0].ValidSeconds != 33*60 {
			t.Errorf("%+v", sent[0])
		}
		if text := first.First[0]; len(text) > host.MaxDifferenceText || !utf8.ValidString(text) ||
			!strings.HasSuffix(text, "é…") {
			t.Errorf("%q", text)
		}
		if !strings.Contains(log.String(), "differences not shown") {
			t.Error(log)
		}
		c.looks = []read.Audited{{Berth: true}}
		a.audit(t.Context())
		c.looks = []read.Audited{found(list...)}
		a.audit(t.Context())
		if len(sent) != 2 || len(sent[1].Hosts) != 0 {
			t.Errorf("%+v", sent)
		}
	})
}

// One audit of a cloud full of damage logs a bounded number of lines.
func TestBoundedLog(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var many []fleet.Finding
		for n := range 5000 {
			many = append(many, orphan(strings.Repeat("x", n+1), "a"))
		}
		a, log := auditorOf(&cloud{looks: []read.Audited{found(many...)}})
		a.audit(t.Context())
		if n := strings.Count(log.String(), "\n"); n != maxLogged+1 || !strings.Contains(log.String(), "new=5000") {
			t.Errorf("%d lines", n)
		}
	})
}
