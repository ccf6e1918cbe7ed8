package slotsource

import (
	"context"
	"os"
	"strings"

	"github.com/openberth/berth/agent/powervm/uom"
	"github.com/openberth/berth/fault"
)

// Recorded is a recorded answer of the REST API: the feed of managed systems, or one of them.
type Recorded struct {
	Path   string
	System string // UUID or name of the system; may be empty if the recording has only one
}

var _ Systems = Recorded{}

// ManagedSystem reads the file. The fault is Invalid for a file that is not a recorded answer, or that has several
// systems if none is named.
func (r Recorded) ManagedSystem(context.Context) (uom.ManagedSystem, bool, error) {
	text, err := os.ReadFile(r.Path)
	if err != nil {
		return uom.ManagedSystem{}, false, fault.New(fault.NotFound, "the recorded answer cannot be read: %w", err)
	}
	system, err := r.decode(text)
	return system, err == nil, err
}

// decode returns the managed system of a recorded answer, with the faults of ManagedSystem.
func (r Recorded) decode(text []byte) (uom.ManagedSystem, error) {
	document := documentOf(text)
	if system, err := uom.Bare[uom.ManagedSystem](document, "ManagedSystem"); err == nil {
		return system, nil
	}
	entries, err := uom.Systems(document)
	if err != nil {
		return uom.ManagedSystem{}, fault.New(fault.Invalid, "%s is not a recorded answer to GET "+
			"/rest/api/uom/ManagedSystem: %w", r.Path, err)
	}
	var names []string
	for _, e := range entries {
		names = append(names, e.Object.SystemName)
		if r.System == "" && len(entries) == 1 || strings.EqualFold(e.Object.UUID, r.System) ||
			e.Object.SystemName == r.System {
			return e.Object, nil
		}
	}
	return uom.ManagedSystem{}, fault.New(fault.Invalid, "%s has %d managed systems (%s); name one with --system or in "+
		"[powervm] system", r.Path, len(entries), strings.Join(names, ", "))
}

// Partitions returns none, because a recording of systems has none: owners that slots do not report are unknown.
func (r Recorded) Partitions(context.Context, string) ([]uom.Partition, error) { return nil, nil }

// documentOf returns the XML document in a recording, which may have text around it, such as the headers of the answer.
func documentOf(text []byte) []byte {
	all := string(text)
	for _, name := range []string{"feed", "entry"} {
		begin := strings.Index(all, "<"+name)
		prefixed := strings.Index(all, ":"+name)
		if prefixed >= 0 && (begin < 0 || prefixed < begin) {
			if open := strings.LastIndex(all[:prefixed], "<"); open >= 0 && !strings.ContainsAny(all[open:prefixed], " >/") {
				begin = open
			}
		}
		end := strings.LastIndex(all, name+">")
		if begin >= 0 && end > begin {
			return []byte(all[begin : end+len(name)+1])
		}
	}
	return text
}
