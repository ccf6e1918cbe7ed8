// Package slotsource is the source of facts of hosts with PowerVM: the physical I/O slots of the managed system, and
// the operator's inventory files.
//
//	REST API ─▶ uom.ManagedSystem ─▶ ioslot.System ─┐
//	inventory files ─▶ inventoryfile.Rules ─────────┴─▶ slotsurvey.Part
//
// Each Read is one GET; an unchanged system is not decoded and unchanged files are not parsed. At the start an error in
// a file is fatal. Later the last valid files stay in force and the error is a problem of the host.
package slotsource

import (
	"context"
	"sync"
	"time"

	"github.com/openberth/berth/agent/facts"
	"github.com/openberth/berth/agent/powervm/ioslot"
	"github.com/openberth/berth/agent/powervm/slotsurvey"
	"github.com/openberth/berth/agent/powervm/uom"
	"github.com/openberth/berth/fault"
	"github.com/openberth/berth/pci"
)

// readTime is the maximum duration of one reading of the system.
const readTime = 2 * time.Minute

// Systems reads a managed system. *restclient.Client implements it, and Recorded for a recorded payload.
type Systems interface {
	// ManagedSystem returns the system; changed is false if it is the one of the last call.
	ManagedSystem(ctx context.Context) (system uom.ManagedSystem, changed bool, err error)
	// Partitions returns all partitions of a system.
	Partitions(ctx context.Context, system string) ([]uom.Partition, error)
}

// Options configure a source.
type Options struct {
	Systems Systems
	// Files are the paths of the inventory files, the later ones with priority. A missing file allows nothing.
	Files           []string
	PlainNames      bool // names of providers without the host
	ClassFromDevice bool
}

// Source reads slots and files. It may be used concurrently.
type Source struct {
	options Options
	mu      sync.Mutex
	files   ruleFiles
	wire    uom.ManagedSystem
	system  ioslot.System
	read    bool // wire and system are those of the last answer
}

var _ facts.Source = (*Source)(nil)

// New returns a source. It reads nothing.
func New(o Options) *Source {
	return &Source{options: o, files: ruleFiles{patterns: o.Files}}
}

// Check parses the inventory files. Invalid: a file has errors; the fault has the first, and Problems returns all.
func (s *Source) Check() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	rules, err := s.files.load()
	if err == nil {
		s.files.accept(rules)
	}
	return err
}

// Read reads the system and the files. The rules of PCI devices are not used. The fault is Invalid for files with
// errors if none were valid before, and otherwise that of the REST API.
func (s *Source) Read(pci.Rules) (facts.Facts, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	ctx, cancel := context.WithTimeout(context.Background(), readTime)
	defer cancel()
	if err := s.readSystem(ctx); err != nil {
		return facts.Facts{}, err
	}
	problems, err := s.files.refresh(s.system)
	if err != nil {
		return facts.Facts{}, err
	}
	problems = append(problems, s.files.missing()...)
	return facts.Facts{Problems: problems, Parts: map[string]any{slotsurvey.Name: slotsurvey.Part{
		System: s.system, Rules: s.files.rules, PlainNames: s.options.PlainNames,
		ClassFromDevice: s.options.ClassFromDevice}}}, nil
}

// readSystem reads the system, and derives the slots again if something may have changed.
func (s *Source) readSystem(ctx context.Context) error {
	wire, changed, err := s.options.Systems.ManagedSystem(ctx)
	if err != nil {
		s.read = false
		return fault.Wrap("", err)
	}
	if s.read && !changed && ioslot.OwnersReported(wire) {
		return nil
	}
	s.wire = wire
	s.system, err = withOwners(ctx, s.options.Systems, wire)
	s.read = err == nil
	return err
}

// Close ends the session with the server, if there is one. A later call begins another one.
func (s *Source) Close(ctx context.Context) {
	if session, is := s.options.Systems.(interface{ Close(context.Context) }); is {
		session.Close(ctx)
	}
}

// LastRead returns the managed system as the last Read had it; ok is false if there was none, if it failed, or while
// another one is in progress, which may take long.
func (s *Source) LastRead() (system uom.ManagedSystem, ok bool) {
	if !s.mu.TryLock() {
		return system, false
	}
	defer s.mu.Unlock()
	return s.wire, s.read
}

// ReadSystem reads the slots of a system once.
func ReadSystem(ctx context.Context, systems Systems) (ioslot.System, error) {
	wire, _, err := systems.ManagedSystem(ctx)
	if err != nil {
		return ioslot.System{}, err
	}
	return withOwners(ctx, systems, wire)
}

// withOwners derives the slots of a system. It reads the partitions if the slots do not report their owners.
func withOwners(ctx context.Context, systems Systems, wire uom.ManagedSystem) (ioslot.System, error) {
	var partitions []uom.Partition
	if !ioslot.OwnersReported(wire) && wire.IO != nil && wire.IO.Slots != nil {
		var err error
		if partitions, err = systems.Partitions(ctx, wire.UUID); err != nil {
			return ioslot.System{}, fault.Wrap("", err)
		}
	}
	return ioslot.FromSystem(wire, partitions), nil
}
