// Package auditor audits a cloud periodically. It changes nothing: it logs the differences that two looks have shown,
// and has metrics of them. `berth audit run` uses it, and `berth up` with [audit] interval.
package auditor

import (
	"cmp"
	"context"
	"log/slog"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/openberth/berth/api/host"
	"github.com/openberth/berth/backoff"
	"github.com/openberth/berth/fleet"
	"github.com/openberth/berth/fleet/heal"
	"github.com/openberth/berth/fleet/read"
)

// Options configure an Auditor.
type Options struct {
	Look   func(context.Context) (read.Audited, error)        // reads the cloud and compares its services
	Every  time.Duration                                      // from the end of an audit to the next one
	Wait   time.Duration                                      // between the two looks of an audit
	Limit  time.Duration                                      // of one look
	Report func(context.Context, host.FoundDifferences) error // to compute, if that is Berth's
	Log    *slog.Logger
	Now    func() time.Time // nil: time.Now
}

// Auditor audits a cloud. It is safe for concurrent use.
type Auditor struct {
	Options
	metrics *metrics

	mu       sync.Mutex
	complete time.Time     // when the last complete audit ended; at first, the start of the program
	ever     bool          // there was a complete audit
	looks    time.Duration // that the looks of that audit took
	began    time.Time     // when the audit that runs began; zero: none runs
	known    map[key]bool
}

// key identifies a difference. Its evidence may change.
type key struct {
	rule    fleet.Rule
	subject string
}

// New returns an auditor that has not looked yet.
func New(o Options) *Auditor {
	if o.Now == nil {
		o.Now = time.Now
	}
	a := &Auditor{Options: o, complete: o.Now(), known: map[key]bool{}}
	a.metrics = newMetrics(a.age, a.overdue)
	return a
}

// Run audits until ctx ends.
func (a *Auditor) Run(ctx context.Context) {
	for ctx.Err() == nil {
		a.audit(ctx)
		if backoff.Sleep(ctx, a.Every) != nil {
			return
		}
	}
}

// audit looks once or twice, and publishes the result. Differences are those of the last audit for which all services
// were read: a rule that lacks a part finds nothing, which does not mean that its differences are gone.
func (a *Auditor) audit(ctx context.Context) {
	var took, looks time.Duration
	a.setBegan(a.Now())
	defer a.setBegan(time.Time{})
	found, err := read.Twice(ctx, a.Wait, func(ctx context.Context) (read.Audited, error) {
		ctx, cancel := context.WithTimeout(ctx, a.Limit)
		defer cancel()
		began := a.Now()
		found, err := a.Look(ctx)
		took = a.Now().Sub(began)
		looks += took
		if err == nil && len(found.Gaps) > 0 {
			a.metrics.looks.WithLabelValues("incomplete").Inc()
		} else if err == nil {
			a.metrics.looks.WithLabelValues("complete").Inc()
		} else {
			a.metrics.looks.WithLabelValues("failed").Inc()
		}
		return found, err
	}, func(read.Audited) {})
	switch {
	case ctx.Err() != nil:
		return
	case err != nil:
		a.Log.Error("audit failed", "error", err)
		return
	case len(found.Gaps) > 0:
		for _, gap := range found.Gaps {
			a.Log.Warn("audit incomplete", "part", gap.Part, "why", gap.Why)
		}
		return
	}
	a.mu.Lock()
	a.complete, a.ever, a.looks, a.began = a.Now(), true, looks, time.Time{}
	a.mu.Unlock()
	for _, gap := range found.Absent {
		a.Log.Info("part not audited", "part", gap.Part, "why", gap.Why)
	}
	a.log(found.Differences)
	a.metrics.publish(found.Differences, took)
	if !found.Berth {
		return
	}
	if err := a.Report(ctx, conditions(found.Differences, a.overdue())); err != nil {
		a.Log.Warn("differences not shown as conditions of hosts", "error", err)
	}
}

// conditions returns differences by host, as far as a report has room. Those of no host, and of hosts that have no
// room, are in the log only. valid is how long they are shown.
func conditions(found []fleet.Finding, valid time.Duration) host.FoundDifferences {
	out := host.FoundDifferences{ValidSeconds: min(valid, host.MaxDifferenceTime).Seconds(),
		Hosts: map[string]host.HostDifference{}}
	for _, f := range found {
		for name := range strings.SplitSeq(f.Host, ", ") {
			d, known := out.Hosts[name]
			if name == "" || !known && len(out.Hosts) == host.MaxDifferenceHosts {
				continue
			}
			if d.Count++; len(d.First) < host.MaxDifferences {
				text := string(f.Rule) + ": " + f.Name + ": " + f.Evidence
				if len(text) > host.MaxDifferenceText {
					text = strings.ToValidUTF8(text[:host.MaxDifferenceText-len("…")], "") + "…"
				}
				d.First = append(d.First, text)
			}
			out.Hosts[name] = d
		}
	}
	return out
}

// maxLogged is how many lines one audit logs at most for new differences, and for those that are gone.
const maxLogged = 100

// log logs the differences that are new and those that are gone. What was known remains silent.
func (a *Auditor) log(found []fleet.Finding) {
	now, fresh, gone := map[key]bool{}, 0, 0
	for _, f := range found {
		k := key{f.Rule, f.Subject}
		if a.known[k] || now[k] {
			now[k] = true
			continue
		}
		now[k] = true
		if fresh++; fresh > maxLogged {
			continue
		}
		healed := "no: " + f.Kept
		if f.Change != nil {
			healed = heal.Text(*f.Change)
		}
		a.Log.Warn("difference found", "rule", f.Rule, "subject", f.Subject, "name", f.Name,
			"host", cmp.Or(f.Host, "-"), "evidence", f.Evidence, "heal", healed)
	}
	for k := range a.known {
		if now[k] {
			continue
		}
		if gone++; gone <= maxLogged {
			a.Log.Info("difference gone", "rule", k.rule, "subject", k.subject)
		}
	}
	a.known = now
	a.Log.Info("audit complete", "differences", len(found), "new", fresh, "gone", gone)
}

// overdueAudits is how many audits may fail before the last complete one is too old.
const overdueAudits = 3

// overdue returns the age from which on the last complete audit is too old: that of three audits with their looks,
// which take long in a large cloud. While an audit runs, its own time counts: it may be the first one of that length.
func (a *Auditor) overdue() time.Duration {
	a.mu.Lock()
	defer a.mu.Unlock()
	looks := a.looks
	if !a.began.IsZero() {
		looks = max(looks, a.Now().Sub(a.began))
	}
	return overdueAudits * (a.Every + a.Wait + looks)
}

func (a *Auditor) setBegan(at time.Time) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.began = at
}

// age returns the time since the last complete audit.
func (a *Auditor) age() time.Duration {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.Now().Sub(a.complete)
}

// Handler answers /metrics and /healthz, without authentication: they name no object of the cloud. /healthz is 503 if
// the last complete audit is too old.
func (a *Auditor) Handler() http.Handler {
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", a.metrics.handler())
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		if a.age() > a.overdue() {
			w.WriteHeader(http.StatusServiceUnavailable)
			_, _ = w.Write([]byte(`{"status": "unavailable", "reason": "The last complete audit is too old; see the log."}`))
			return
		}
		_, _ = w.Write([]byte(`{"status": "ok"}`)) // the client may be gone
	})
	return mux
}
