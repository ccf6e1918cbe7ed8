package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/openberth/berth/api/compute"
	"github.com/openberth/berth/fault"
)

// serverResult is the result of a command for one of its servers.
type serverResult struct {
	Server string `json:"server"` // as the user named it
	ID     string `json:"id,omitempty"`
	Name   string `json:"name,omitempty"`
	Result string `json:"result"`
	Error  string `json:"error,omitempty"`
}

// eachServer calls do for each server, in the given order, also after failures; not after the user has interrupted the
// command. It returns a result for each server, the servers for which do succeeded, and the failures.
func (g *Globals) eachServer(ctx context.Context, names []string, done string,
	do func(ctx context.Context, s compute.Server) error) (results []serverResult, good []compute.Server, err error) {
	var failed []error
	for _, name := range names {
		r := serverResult{Server: name, Result: done}
		err := context.Cause(ctx)
		if err == nil {
			var s compute.Server
			if s, err = g.compute().Server(ctx, name); err == nil {
				r.ID, r.Name = s.ID, s.Name
				err = do(ctx, s)
			}
			if err == nil {
				good = append(good, s)
			}
		}
		if err != nil {
			r.Result, r.Error = "failed", fault.TextOf(err)
			if errors.Is(err, context.Canceled) {
				r.Result, r.Error = "interrupted", ""
			}
			if r.Name != "" && name == r.ID { // of a list that the command has read
				name = r.Name
			}
			failed = append(failed, of(name, len(names), err))
		}
		results = append(results, r)
	}
	return results, good, several(len(names), "servers", failed)
}

// of returns the error of one of several servers, with its name.
func of(name string, of int, err error) error {
	if of == 1 || errors.Is(err, context.Canceled) {
		return err
	}
	return &fault.Error{Kind: fault.KindOf(err), Msg: name + ": " + fault.TextOf(err), Err: err}
}

// several joins the errors of a command on several objects. If the user interrupted it, only that is returned.
func several(n int, nouns string, failed []error) error {
	for _, err := range failed {
		if errors.Is(err, context.Canceled) {
			return err
		}
	}
	if n > 1 && len(failed) > 0 {
		failed = append(failed, fault.New(fault.Conflict, "failed for %d of %d %s", len(failed), n, nouns))
	}
	return errors.Join(failed...)
}

// printResults prints the results of a command on servers.
func (g *Globals) printResults(results []serverResult) error {
	rows := [][]string{}
	for _, r := range results {
		name := r.Name
		if name == "" {
			name = r.Server
		}
		rows = append(rows, []string{name, dash(r.ID), r.Result})
	}
	if results == nil {
		results = []serverResult{}
	}
	return g.print(results, []string{"Server", "ID", "Result"}, rows)
}

// failures returns the faults of the servers in ERROR. Servers with the same fault are named together.
func failures(list []compute.Server) error {
	names, first, count := map[string][]string{}, map[string]compute.Server{}, map[string]int{}
	var texts []string
	for _, s := range list {
		count[s.Name]++
	}
	for _, s := range list {
		if s.Status != "ERROR" {
			continue
		}
		text := cmp.Or(faultOf(s), "the service shows no fault")
		if names[text] == nil {
			texts = append(texts, text)
			first[text] = s
		}
		names[text] = append(names[text], s.Name)
	}
	var failed []error
	for _, text := range texts {
		who := "server " + names[text][0] + " is"
		if n := len(names[text]); n > 1 {
			who = fmt.Sprintf("%d servers (%s) are", n, namesText(names[text]))
		}
		look := first[text].Name
		if count[look] > 1 || look == "" {
			look = first[text].ID
		}
		failed = append(failed, fault.New(fault.NoCapacity, "%s in ERROR: %s; see `berth server why %s`", who,
			strings.TrimSuffix(text, "."), look))
	}
	return errors.Join(failed...)
}

var numbered = regexp.MustCompile(`^(.*-)(\d{1,9})$`)

// namesText returns the names in order. Numbered names that follow each other are one range: "web-1 to web-14".
func namesText(names []string) string {
	type name struct {
		text, prefix string
		number       int
	}
	var list []name
	for _, text := range names {
		one := name{text: text, prefix: text}
		if m := numbered.FindStringSubmatch(text); m != nil {
			one.prefix = m[1]
			one.number, _ = strconv.Atoi(m[2]) // at most nine digits: never out of range
		}
		list = append(list, one)
	}
	slices.SortStableFunc(list, func(a, b name) int {
		if c := strings.Compare(a.prefix, b.prefix); c != 0 {
			return c
		}
		return a.number - b.number
	})
	var parts []string
	for i := 0; i < len(list); {
		end := i
		for end+1 < len(list) && list[end+1].prefix == list[i].prefix && list[end+1].number == list[end].number+1 {
			end++
		}
		if end-i > 1 {
			parts = append(parts, list[i].text+" to "+list[end].text)
		} else {
			for _, one := range list[i : end+1] {
				parts = append(parts, one.text)
			}
		}
		i = end + 1
	}
	return strings.Join(parts, ", ")
}
