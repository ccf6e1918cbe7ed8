package console

import (
	"net/http"
	"slices"
	"time"

	"github.com/openberth/berth/console/view"
	"github.com/openberth/berth/fault"
	"github.com/openberth/berth/fleet"
	"github.com/openberth/berth/fleet/heal"
)

// auditContent is the content of the page of the audit.
type auditContent struct {
	auditState
	Rule    string // only differences of this rule are shown; empty: all
	Rules   []ruleCount
	Rows    []auditRow
	More    int // differences that Rows lacks
	Planned []plannedChange
	Reverts []plannedChange
	Outcome []outcome
	cloud   *view.Cloud
}

// ruleCount is the number of differences of a rule.
type ruleCount struct {
	Rule fleet.Rule
	N    int
}

// auditRow is a difference.
type auditRow struct {
	fleet.Finding
	Says []view.Segment // its evidence
	Heal []view.Segment // what heals it, or why it is not healed
}

// plannedChange is a change that the user can make.
type plannedChange struct {
	Subject string
	Name    view.Segment
	What    []view.Segment
}

// outcome is what became of a change.
type outcome struct {
	heal.Result
	Name view.Segment
	Text []view.Segment
}

// maxDifferences is the number of differences that a page shows.
const maxDifferences = 500

// audit shows the differences between the services. The first request of a session begins an audit.
func (c *Console) audit(w http.ResponseWriter, r *http.Request, one *session) error {
	state := one.audit.get(one.ctx, one.clients)
	if state.Err != nil && (refused(state.Err) || fault.Is(state.Err, fault.Forbidden)) {
		one.audit.forget()
		return state.Err
	}
	content := newAuditContent(state, one.read.known(), r.URL.Query().Get("rule"))
	p := one.page("Audit", "audit", nil)
	for _, gap := range state.Found.Gaps {
		p.Gaps = append(p.Gaps, string(gap.Part)+": "+gap.Why)
	}
	p.Refresh, p.Content = state.refresh(time.Now()), content
	c.render(w, http.StatusOK, "audit", p)
	return nil
}

// refresh returns the seconds after which the page has something else to show; 0: it has not.
func (s auditState) refresh(now time.Time) int {
	switch s.Step {
	case "":
		return 0
	case waiting:
		return max(int(s.Next.Sub(now).Seconds())+2, 2)
	}
	return 2
}

// newAuditContent returns the content for a state. cloud gives names to ids; nil: ids are shown.
func newAuditContent(state auditState, cloud *view.Cloud, rule string) auditContent {
	content := auditContent{auditState: state, Rule: rule, cloud: cloud}
	counts := map[fleet.Rule]int{}
	for _, f := range state.Found.Differences {
		counts[f.Rule]++
		if rule != "" && rule != string(f.Rule) {
			continue
		}
		if len(content.Rows) == maxDifferences {
			content.More++
			continue
		}
		row := auditRow{Finding: f, Says: cloud.Sentence(f.Evidence), Heal: cloud.Sentence("no: " + f.Kept)}
		if f.Change != nil {
			row.Heal = cloud.Sentence(heal.Text(*f.Change))
		}
		content.Rows = append(content.Rows, row)
	}
	for _, one := range fleet.Rules() {
		if counts[one] > 0 {
			content.Rules = append(content.Rules, ruleCount{one, counts[one]})
		}
	}
	content.Planned = planned(cloud, state.Plan.Changes)
	content.Reverts = planned(cloud, fleet.Undo(state.Undo.Changes))
	for _, r := range state.Results {
		content.Outcome = append(content.Outcome, outcome{r, cloud.Named(r.Subject), cloud.Sentence(r.What)})
	}
	return content
}

// planned returns changes for a table.
func planned(cloud *view.Cloud, changes []fleet.Change) (list []plannedChange) {
	for _, c := range changes {
		list = append(list, plannedChange{c.Subject(), cloud.Named(c.Subject()), cloud.Sentence(heal.Text(c))})
	}
	return list
}

// Why returns why the last audit has failed; empty: it has not.
func (a auditContent) Why() string {
	if a.Err == nil {
		return ""
	}
	return fault.TextOf(a.Err)
}

// HasHost reports whether the console has a page of a host.
func (a auditContent) HasHost(name string) bool { return a.cloud != nil && a.cloud.Find(name) != nil }

// Named returns the segment of an id or of another name.
func (a auditContent) Named(id, name string) view.Segment {
	if s := a.cloud.Named(id); s.Server != "" {
		return s
	}
	return view.Segment{Text: name}
}

// auditForm serves a form of the page of the audit, and then leads to the page.
func (c *Console) auditForm(do func(*http.Request, *session) error) http.HandlerFunc {
	return c.form(func(w http.ResponseWriter, r *http.Request, one *session) error {
		if err := do(r, one); err != nil {
			return err
		}
		http.Redirect(w, r, "/audit", http.StatusSeeOther)
		return nil
	})
}

// auditAgain begins an audit.
func (c *Console) auditAgain(_ *http.Request, one *session) error {
	return one.audit.begin(one.ctx, one.clients)
}

// auditApply makes the changes that the form names, of the plan that the page has shown.
func (c *Console) auditApply(r *http.Request, one *session) error {
	return one.audit.apply(one.ctx, one.clients, r.PostForm.Get("plan"), one.user, r.PostForm["change"])
}

// auditUndo reverts the last changes.
func (c *Console) auditUndo(r *http.Request, one *session) error {
	return one.audit.undo(one.ctx, one.clients, r.PostForm.Get("plan"), one.user)
}

// undoFile sends the undo file of the plan, or of the last changes: the one with the id in the query.
func (c *Console) undoFile(w http.ResponseWriter, r *http.Request, one *session) error {
	state, id := one.audit.get(one.ctx, one.clients), r.URL.Query().Get("plan")
	plans := []planState{state.Plan, state.Undo}
	i := slices.IndexFunc(plans, func(p planState) bool { return same(p.ID, id) })
	if i < 0 {
		return fault.New(fault.NotFound, "these changes are no longer the last ones; load the page of the audit again")
	}
	text, err := heal.UndoFile(time.Now().UTC(), plans[i].Changes)
	if err != nil {
		return err
	}
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Content-Disposition", `attachment; filename="berth-undo-`+
		time.Now().UTC().Format("20060102T150405Z")+`.json"`)
	_, _ = w.Write(text) // the client may be gone
	return nil
}
