package cli

import (
	"bufio"
	"cmp"
	"context"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/openberth/berth/config"
	"github.com/openberth/berth/datafile"
	"github.com/openberth/berth/fault"
	"github.com/openberth/berth/fleet"
	"github.com/openberth/berth/fleet/heal"
	"github.com/openberth/berth/fleet/read"
	"github.com/openberth/berth/pci"
)

// AuditCmd compares the services of a cloud.
type AuditCmd struct {
	BetweenLooks time.Duration `help:"Time between the two looks: only what is the same in both is reported. 0: look once, which --heal does not accept." default:"1m"`
	AliasFile    []string      `help:"nova.conf with the aliases of PCI devices ([pci] alias); without it nothing is reported about devices of flavors with aliases. May be repeated." placeholder:"FILE" sep:"none"`
	Rule         []string      `help:"Only differences of this rule, as the table names it. May be repeated." placeholder:"RULE" sep:"none"`
	Heal         bool          `help:"Show what would be changed in Placement, ask, change it, and write an undo file."`
	Yes          bool          `help:"With --heal: do not ask."`
	UndoFile     string        `help:"With --heal: the undo file, which must not exist. Default: berth-undo-TIME.json in this directory." placeholder:"FILE"`
	Undo         string        `help:"Undo the changes of an undo file, as far as nothing has changed since." placeholder:"FILE"`
	LongOutput
}

// Validate checks the flags.
func (c *AuditCmd) Validate() error {
	switch {
	case c.BetweenLooks < 0:
		return fault.New(fault.Invalid, "--between-looks %s is negative; use a time such as 1m", c.BetweenLooks)
	case c.Heal && c.BetweenLooks < time.Second:
		return fault.New(fault.Invalid, "--heal needs --between-looks of at least 1s: only what two looks show is changed")
	case (c.Yes || c.UndoFile != "") && !c.Heal:
		return fault.New(fault.Invalid, "--yes and --undo-file need --heal: without it nothing is changed")
	case c.Heal && c.Undo != "":
		return fault.New(fault.Invalid, "--heal and --undo exclude each other; use one of them")
	case c.Heal && len(c.Rule) > 0:
		return fault.New(fault.Invalid, "--heal and --rule exclude each other: what heals a server heals all of its "+
			"differences; leave out --rule")
	}
	for _, rule := range c.Rule {
		if !slices.Contains(fleet.Rules(), fleet.Rule(rule)) {
			return fault.New(fault.Invalid, "there is no rule %q; the rules are %s", rule, ruleNames())
		}
	}
	return nil
}

// ruleNames returns the names of all rules, for people.
func ruleNames() string {
	var names []string
	for _, rule := range fleet.Rules() {
		names = append(names, string(rule))
	}
	return strings.Join(names, ", ")
}

// Exit statuses of the command beside those of errors.
const (
	differencesFound = 3
	notAllRead       = 4
)

// Help explains the exit statuses.
func (c *AuditCmd) Help() string {
	return fmt.Sprintf("It reads only, except with --heal and --undo, which change Placement only. Exit status: 0 no "+
		"differences, or all are healed; %d differences remain; %d none was found, but not all services were read.",
		differencesFound, notAllRead)
}

// Run prints the differences, and heals them if requested. It returns a StatusError if differences remain.
func (c *AuditCmd) Run(g *Globals) error {
	ctx, cancel := fleetContext(g)
	defer cancel()
	if c.Undo != "" {
		return c.undo(ctx, g)
	}
	aliases, err := readAliases(c.AliasFile)
	if err != nil {
		return err
	}
	options := fleet.AuditOptions{Aliases: aliases, AliasesKnown: len(c.AliasFile) > 0}
	found, err := read.Twice(ctx, c.BetweenLooks,
		func(ctx context.Context) (read.Audited, error) { return look(ctx, g, options) },
		func(first read.Audited) {
			fmt.Fprintf(g.stderr(), "%s; looking again after %s\n", counted(len(first.Differences), "difference"),
				c.BetweenLooks)
		})
	if err != nil {
		return err
	}
	found.Differences = slices.DeleteFunc(found.Differences, func(f fleet.Finding) bool {
		return len(c.Rule) > 0 && !slices.Contains(c.Rule, string(f.Rule))
	})
	if g.Output != "json" || !c.Heal || len(fleet.Plan(found.Differences)) == 0 {
		if err := c.print(g, found); err != nil {
			return err
		}
	}
	left := len(found.Differences)
	if c.Heal && left > 0 {
		if left, err = c.heal(ctx, g, found); err != nil {
			return err
		}
	}
	switch {
	case left > 0:
		return &StatusError{differencesFound, fault.New(fault.Conflict, "%s", remaining(left))}
	case len(found.Gaps) > 0:
		return &StatusError{notAllRead, fault.New(fault.Unavailable, "not all services were read; the warnings say why")}
	}
	return nil
}

// look reads the services and returns the differences between them.
func look(ctx context.Context, g *Globals, o fleet.AuditOptions) (read.Audited, error) {
	services := g.services()
	s, err := readSnapshot(ctx, g, &services, read.Options{})
	if err != nil {
		return read.Audited{}, err
	}
	found, err := read.Audit(ctx, services, s, o)
	for _, gap := range found.Gaps {
		fmt.Fprintf(g.stderr(), "warning: %s are incomplete, so rules that need them report nothing: %s\n", gap.Part,
			gap.Why)
	}
	for _, gap := range found.Absent {
		fmt.Fprintf(g.stderr(), "note: %s are not compared: %s\n", gap.Part, gap.Why)
	}
	return found, err
}

// print prints the differences.
func (c *AuditCmd) print(g *Globals, found read.Audited) error {
	if g.Output == "json" {
		return writeJSON(g.stdout(), found)
	}
	if len(found.Differences) == 0 {
		_, err := fmt.Fprintln(g.stdout(), "no differences")
		return err
	}
	return printList(g, found.Differences, "Rule", c.Long, []column[fleet.Finding]{
		{name: "Rule", text: func(f fleet.Finding) string { return string(f.Rule) }},
		{name: "Name", text: func(f fleet.Finding) string { return f.Name }},
		{name: "Host", text: func(f fleet.Finding) string { return dash(f.Host) }},
		{name: "Evidence", text: func(f fleet.Finding) string { return f.Evidence }},
		{name: "Changed", text: func(f fleet.Finding) string { return dash(localTime(f.Changed)) }},
		{name: "Heal", text: func(f fleet.Finding) string {
			if f.Change == nil {
				return "no: " + f.Kept
			}
			return heal.Text(*f.Change)
		}},
		{name: "Subject", long: true, text: func(f fleet.Finding) string { return f.Subject }},
		{name: "Since", long: true, text: func(f fleet.Finding) string { return localTime(f.Since) }},
	})
}

// heal makes the changes that heal differences, after it has written the undo file. It returns how many differences
// remain.
func (c *AuditCmd) heal(ctx context.Context, g *Globals, found read.Audited) (left int, err error) {
	plan := fleet.Plan(found.Differences)
	if len(plan) == 0 {
		return len(found.Differences), nil
	}
	client := g.placement()
	if err := heal.Complete(ctx, client, plan); err != nil {
		return 0, err
	}
	if !c.Yes {
		if g.Output == "json" { // the table of differences was not printed
			for _, change := range plan {
				fmt.Fprintf(g.stderr(), "%s: %s\n", change.Subject(), heal.Text(change))
			}
		}
		fmt.Fprintf(g.stderr(), "Make %s in Placement? [y/N] ", counted(len(plan), "change"))
		answer, _ := bufio.NewReader(g.stdin()).ReadString('\n') // without an answer nothing is changed
		if word := strings.ToLower(strings.TrimSpace(answer)); word != "y" && word != "yes" {
			fmt.Fprintln(g.stderr(), "nothing was changed")
			return len(found.Differences), nil
		}
	}
	now := time.Now().UTC()
	path := cmp.Or(c.UndoFile, "berth-undo-"+now.Format("20060102T150405Z")+".json")
	if _, err := os.Lstat(path); err == nil {
		return 0, fault.New(fault.Conflict, "the undo file %s exists; name another one with --undo-file", path)
	}
	text, err := heal.UndoFile(now, plan)
	if err != nil {
		return 0, err
	}
	if err := datafile.Replace(path, text); err != nil {
		return 0, fault.New(fault.Invalid, "cannot write the undo file, so nothing was changed: %w", err)
	}
	results := heal.Apply(ctx, client, plan)
	failed, err := printResults(g, results)
	if err != nil {
		return 0, err
	}
	fmt.Fprintf(g.stderr(), "undo with: berth audit --undo %s\n", path)
	for _, f := range found.Differences {
		if f.Change == nil || failed[f.Subject] {
			left++
		}
	}
	return left, nil
}

// printResults prints what became of changes, and returns the subjects of those that were not made.
func printResults(g *Globals, results []heal.Result) (failed map[string]bool, err error) {
	failed, rows := map[string]bool{}, [][]string{}
	for _, r := range results {
		outcome := "done"
		if !r.Done {
			failed[r.Subject], outcome = true, "not done: "+r.Why
		}
		rows = append(rows, []string{r.Subject, r.What, outcome})
	}
	return failed, g.print(results, []string{"Subject", "Change", "Outcome"}, rows)
}

// undo reverts the changes of an undo file.
func (c *AuditCmd) undo(ctx context.Context, g *Globals) error {
	text, err := os.ReadFile(c.Undo)
	if err != nil {
		return fault.New(fault.Invalid, "cannot read the undo file: %w; name the file that --heal has written", err)
	}
	changes, err := heal.ReadUndoFile(text)
	if err != nil {
		return fault.New(fault.Invalid, "%s is not an undo file of this version of berth; name the file that --heal has "+
			"written, or that the console has sent", c.Undo)
	}
	failed, err := printResults(g, heal.Undo(ctx, g.placement(), changes))
	if err == nil && len(failed) > 0 {
		return &StatusError{differencesFound, fault.New(fault.Conflict, "%d changes are not undone; the table has the "+
			"reasons", len(failed))}
	}
	return err
}

// readAliases reads [pci] alias of configuration files.
func readAliases(files []string) (pci.Aliases, error) {
	if len(files) == 0 {
		return pci.Aliases{}, nil
	}
	conf, err := config.Load(files...)
	if err != nil {
		return nil, err
	}
	var texts []string
	for _, entry := range conf.All("pci", "alias") {
		texts = append(texts, entry.Value)
	}
	aliases, err := pci.ParseAliases(true, texts...)
	if err != nil {
		return nil, fault.New(fault.Invalid, "[pci] alias of %s: %w", strings.Join(files, ", "), err)
	}
	return aliases, nil
}

// remaining says how many differences remain.
func remaining(n int) string {
	if n == 1 {
		return "1 difference remains"
	}
	return fmt.Sprintf("%d differences remain", n)
}
