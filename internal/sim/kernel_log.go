package sim

import (
	"fmt"
	"slices"
	"strings"

	"github.com/openberth/berth/compute/lifecycle"
)

// note logs and counts an operation.
func (k *kernel) note(kind, of, at, text string) {
	const most = 8000
	k.noted++
	if k.report.Done[kind]++; len(k.log) >= most {
		k.log = append(k.log[:0], k.log[most/2:]...)
	}
	k.log = append(k.log, entry{n: k.n, kind: kind, of: of, at: at, text: text})
}

// logChange logs a change of a server. e is the event that has changed it; nil: that of a step.
func (k *kernel) logChange(before lifecycle.Server, e lifecycle.Event, now lifecycle.Server) {
	if before.Stage() != now.Stage() {
		k.report.Happened[now.Stage()]++
	} else if e == nil {
		return
	}
	k.log = append(k.log, entry{n: k.n, kind: "·", of: now.ID, at: now.Host, e: e, was: before.Stage(), is: now.Stage()})
}

// excerpt returns the last operations that concern what the failure names.
func (k *kernel) excerpt() string {
	const most = 90
	words := strings.FieldsFunc(k.failure, func(r rune) bool { return strings.ContainsRune(" ,:;()", r) })
	for _, word := range slices.Clone(words) {
		if owner := k.ownerOf[word]; owner != "" {
			words = append(words, owner)
		}
	}
	var lines []string
	for _, e := range slices.Backward(k.log) {
		if len(lines) == most {
			break
		}
		if slices.Contains(words, e.of) || slices.Contains(words, e.at) ||
			e.of != "" && slices.Contains(words, k.ownerOf[e.of]) {
			if e.was != e.is || e.e != nil {
				e.text = fmt.Sprintf("%s → %s  %T %s", e.was, e.is, e.e, brief(e.e))
			}
			lines = append(lines, strings.TrimRight(fmt.Sprintf("  %7d %-9s %-8s %-6s %s", e.n, e.kind, e.of, e.at, e.text),
				" "))
		}
	}
	slices.Reverse(lines)
	return strings.Join(lines, "\n")
}

// brief returns the important fields of an event.
func brief(e lifecycle.Event) string {
	switch e := e.(type) {
	case lifecycle.Report:
		return fmt.Sprintf("%d: %T %s", e.Number, e.Event, brief(e.Event))
	case lifecycle.Chosen:
		return e.Choices[0].Host
	case lifecycle.ActionRequested:
		return e.ID + " " + string(e.Action)
	case lifecycle.GuestClaimed:
		return e.Host + " as " + e.Consumer
	case lifecycle.GuestRunning:
		return e.Host + " as " + e.Consumer
	case lifecycle.GuestStopped:
		return e.Host + " as " + e.Consumer
	case lifecycle.NoValidHost:
		return e.Reason
	case lifecycle.GuestMigrated, lifecycle.GuestGone, lifecycle.GuestFailed, lifecycle.ClaimLost, lifecycle.Refused,
		lifecycle.HostDead, lifecycle.LeftoverReleased:
		return fmt.Sprint(e)
	}
	return ""
}
