package lifecycle

import (
	"encoding/json"
	"slices"
	"testing"

	"github.com/openberth/berth/compute/schedule"
	"github.com/openberth/berth/pci"
)

// withDevice is the tag of a network whose port needs a device.
const withDevice = "device"

// events are all that can happen to a server in this state, right, late and from elsewhere.
func events(s Server) []Event {
	picked := []schedule.Picked{{RequestID: "R", Address: "0000:3b:00.1", Provider: "pf-a"}}
	list := []Event{
		Created{}, prepared, Released{}, AllocationsMoved{}, AllocationsRestored{}, MinCountReached{},
		MinCountFailed{Reason: "too few"}, DeleteRequested{}, DeleteRequested{Silent: true},
		DeleteRequested{MayHavePorts: true},
		Chosen{Choices: []schedule.Choice{choice("a")}, Candidates: 3},
		Chosen{Choices: []schedule.Choice{choice("b"), choice("a")}, Candidates: 2, Refused: "1 host: x"},
		NoValidHost{Candidates: 2, Reason: "2 hosts: full", Again: true}, NoValidHost{Reason: "nothing left"},
		Claimed{Try: s.Try}, Claimed{Try: s.Try - 1}, ClaimLost{Try: s.Try, Reason: "taken"}, ClaimLost{Try: s.Try - 1,
			Reason: "taken"},
		HostDead{Host: "a"},
	}
	if len(s.Networks) > 0 {
		port := Port{ID: "p", Host: s.Host}
		for i, e := range list {
			if chosen, is := e.(Chosen); is { // Schedule always returns the ports
				chosen.Ports = []Port{{ID: "p", Host: "a"}}
				if s.Networks[0].Tag == withDevice {
					chosen.PortDevices = []pci.Request{{ID: "R", Count: 1, Port: &pci.PortNeeds{ID: "p"}}}
				}
				list[i] = chosen
			}
		}
		if picked, needed := s.DeviceOf("p"); needed {
			port.Device = picked.Address
		}
		list = append(list, PortsBound{Host: s.Host, Ports: []Port{port}}, PortsBound{Host: "elsewhere"},
			PortsNotBound{Host: s.Host, Reason: "no agent"}, Refused{Step: BindPorts, Reason: "forbidden"},
			StepFailed{Step: BindPorts, Reason: "does not answer"}, PortAttached{ID: "late"}, PortDetached{ID: "late"},
			PortNotAttached{ID: "late"})
	}
	for _, step := range []Step{Prepare, Schedule, Claim, Release, MoveAllocations, RestoreAllocations, ReleaseLeftover,
		CheckMinCount} {
		list = append(list, Refused{Step: step, Reason: "forbidden"}, StepFailed{Step: step, Reason: "does not answer"})
	}
	list = append(list, StepFailed{Step: RestoreAllocations, Reason: "forbidden", Refused: true})
	for _, as := range []string{"s", "m1", "m2"} {
		list = append(list, LeftoverReleased{Consumer: as})
		for _, host := range []string{"a", "b", ""} {
			list = append(list, GuestClaimed{Host: host, Consumer: as, Devices: picked}, GuestRunning{Host: host, Consumer: as,
				Devices: picked},
				GuestStopped{Host: host, Consumer: as, Devices: picked}, GuestRefused{Host: host, Consumer: as, Devices: picked,
					Message: "no"},
				GuestRefused{Host: host, Consumer: as, Devices: picked, Message: "no", Power: Off}, GuestMigrated{Host: host,
					Consumer: as},
				GuestFailed{Host: host, Consumer: as, Message: "no hugepages"}, GuestGone{Host: host, Consumer: as})
		}
	}
	list = append(list, removals(s)...)
	if s.RescueImage != "" || s.Rescued != "" {
		list = append(list, GuestRunning{Host: s.Host, Consumer: s.ID, Devices: picked, Rescue: "rescue"},
			GuestRefused{Host: s.Host, Consumer: s.ID, Devices: picked, Message: "no", Rescue: s.Rescued})
	}
	if s.Power.holds() || s.Actual.holds() {
		list = append(list, GuestRunning{Host: s.Host, Consumer: s.ID, Devices: picked, Paused: true},
			GuestStopped{Host: s.Host, Consumer: s.ID, Devices: picked, Suspended: true},
			GuestStopped{Host: s.Host, Consumer: s.ID, Devices: picked, ShutDown: true},
			GuestRefused{Host: s.Host, Consumer: s.ID, Devices: picked, Message: "no", Power: s.Actual})
	}
	list = append(list, imageEvents(s)...)
	if len(s.Networks) > 0 { // ports change nothing about these
		list = slices.DeleteFunc(list, func(e Event) bool {
			_, refused := e.(GuestRefused)
			migrated, is := e.(GuestMigrated)
			gone, ends := e.(GuestGone)
			return refused || is && migrated.Host == "" || ends && (gone.Host == "" || gone.Consumer == "m2")
		})
	}
	actions := []Action{Confirm, Revert, Offload, Reset}
	switch {
	case s.MinCount > 1: // how it begins is all that is different
	case s.Migration == nil && len(s.Networks) > 0:
		list = append(list, ActionRequested{ID: "m1", Action: Resize}, ActionRequested{ID: "m1", Action: Live})
	case s.Migration == nil:
		actions = append(actions, Start, Stop, Reboot, Rebuild, Shelve, Unshelve, Pause, Unpause, Suspend, Resume)
		if !testing.Short() && s.Builds == 0 && s.Power == On {
			actions = append(actions, Unrescue)
			list = append(list, ActionRequested{ID: "w", Action: Rescue, Image: "rescue"})
		}
		if len(s.UnusedImages) > 0 { // they change nothing about moves
			break
		}
		list = append(list, ActionRequested{ID: "i", Action: Shelve, DiskFormat: "qcow2"},
			ActionRequested{ID: "i", Action: Snapshot, DiskFormat: "qcow2"})
		if !s.Power.holds() && !s.Actual.holds() && s.Fault == nil && s.RescueImage == "" && s.Rescued == "" &&
			(s.ShelvedImage == nil || s.ShelvedImage.Copy == nil) {
			list = append(list, heldEvents(s)...)
		}
		for _, a := range []Action{Resize, Live, Evacuate} {
			list = append(list, ActionRequested{ID: "m1", Action: a, SameHost: true})
		}
	// the second move is one of a kind
	case s.Migration.ID == "m1" && len(s.Leftovers) == 0 && len(s.Networks) == 0 && !testing.Short():
		list = append(list, ActionRequested{ID: "m2", Action: Resize, SameHost: true})
	}
	if s.Move != nil && s.Move.Kind == LiveMigration && len(s.Networks) == 0 {
		actions = append(actions, AbortLive)
	}
	for _, a := range actions {
		list = append(list, ActionRequested{ID: "w", Action: a, Hard: true})
	}
	return list
}

// heldEvents are what can happen to a server that is kept on its host while it is deleted or shelved.
func heldEvents(s Server) []Event {
	list := []Event{DeleteRequested{Soft: true}, OffloadDue{}, OffloadDue{ShelvedAt: noon},
		DeleteRequested{Reclaims: noon}, ActionRequested{ID: "w", Action: Restore}}
	if s.ShelvedImage != nil {
		list = append(list, ImageChecked{ID: "i", Keep: true})
	}
	return list
}

// imageEvents are what can happen to the image of a server that is shelved, right, late and about another image.
func imageEvents(s Server) (list []Event) {
	if s.ShelvedImage == nil && len(s.UnusedImages) == 0 {
		return nil
	}
	for _, id := range []string{"i", "other"} {
		list = append(list, ImageCreated{ID: id}, ImageChecked{ID: id}, ImageDeleted{ID: id})
		for _, u := range []DiskUpload{{Bytes: 7, SHA512: "sum"}, {Error: "does not answer"}, {Error: "full", Final: true}} {
			u.Image = id
			list = append(list, GuestStopped{Host: s.Host, Consumer: s.ID, Upload: &u},
				GuestRunning{Host: s.Host, Consumer: s.ID, Upload: &u})
		}
	}
	for _, step := range []Step{CreateImage, CheckImage, DeleteImage} {
		list = append(list, Refused{Step: step, Reason: "forbidden"}, StepFailed{Step: step, Reason: "does not answer"})
	}
	return list
}

// removals are reports that nothing is left of guests, with the ids under which nothing is left: of one id, as a
// repeated report of an earlier guest, and of all ids of a residence that has two.
func removals(s Server) (list []Event) {
	for _, r := range s.Residences() {
		for _, removed := range [][]string{{r.Consumer}, {r.PreviousConsumer}, {r.Consumer, r.PreviousConsumer}} {
			if r.PreviousConsumer != "" {
				list = append(list, GuestGone{Host: r.Host, Consumer: removed[0], Removed: removed},
					GuestFailed{Host: r.Host, Consumer: removed[0], Message: "no hugepages", Removed: removed})
			}
		}
	}
	return list
}

// facts are what Placement and the hosts may have, as far as the record of the server determines it. The tests have
// few consumers and hosts, so the facts are arrays: they are copied and compared a million times.
type facts struct {
	claims [len(allConsumers)]bool                // consumers for which Placement may have an allocation
	guests [len(allHosts)][len(allConsumers)]bool // guests that agents have reported, and not as gone
}

// allConsumers and allHosts are those of events, in alphabetical order.
var (
	allConsumers = [...]string{"m1", "m2", "s"}
	allHosts     = [...]string{"", "a", "b"}
)

// claim returns the fact that Placement may have an allocation of a consumer.
func (w *facts) claim(consumer string) *bool {
	return &w.claims[slices.Index(allConsumers[:], consumer)]
}

// guest returns the fact that a guest may be on a host. There is no guest without a consumer.
func (w *facts) guest(host, consumer string) *bool {
	if consumer == "" {
		return new(bool)
	}
	return &w.guests[slices.Index(allHosts[:], host)][slices.Index(allConsumers[:], consumer)]
}

// after returns the facts after an event.
func (w facts) after(before Server, e Event, now Server) facts {
	swap := func(from, to string) {
		if *w.claim(from) {
			*w.claim(from) = false
			*w.claim(to) = true
		}
	}
	switch e := e.(type) {
	case ClaimLost:
		if before.isDue(Claim) && e.Try == before.Try {
			*w.claim("s") = false
		}
	case Released:
		if slices.Contains(before.Steps(), Release) {
			*w.claim("s") = false
		}
	case AllocationsMoved:
		if before.Phase() == MovingAllocations {
			swap("s", before.Move.Consumer)
		}
	case AllocationsRestored:
		if before.Phase() == RestoringAllocations {
			swap(before.Move.Consumer, "s")
		}
	case LeftoverReleased:
		if left, ok := before.NextLeftover(); ok && left.Consumer == e.Consumer {
			*w.claim(e.Consumer) = false
		}
	case HostDead:
		w.guests[slices.Index(allHosts[:], e.Host)] = [len(allConsumers)]bool{}
	case GuestClaimed:
		w.addGuest(before, e.Host, e.Consumer)
	case GuestRunning:
		w.addGuest(before, e.Host, e.Consumer)
	case GuestStopped:
		w.addGuest(before, e.Host, e.Consumer)
	case GuestRefused:
		w.addGuest(before, e.Host, e.Consumer)
	case GuestMigrated:
		w.renamed(before, e.Host, e.Consumer)
	case GuestFailed:
		stays := before.Move != nil && before.Move.Kind == LiveMigration && e.Consumer == before.Move.From.Consumer &&
			(before.Phase() == LiveMigrating || before.Move.Failed != "")
		if !stays {
			w.removeGuest(before, e.Host, e.Consumer, e.Removed)
		}
	case GuestGone:
		if !before.Expects(e.Consumer, e.Host) { // else it means little: the agent builds it again
			w.removeGuest(before, e.Host, e.Consumer, e.Removed)
		}
	}
	if now.isDue(Claim) {
		*w.claim("s") = true // from now on the claim may be written
	}
	return w
}

// removeGuest removes a guest, under the ids that the report names, or if it names none under whichever id it had.
func (w *facts) removeGuest(before Server, host, as string, removed []string) {
	if len(removed) > 0 {
		for _, id := range removed {
			*w.guest(host, id) = false
		}
		return
	}
	*w.guest(host, as) = false
	for _, l := range before.Residences() {
		if l.Host == host && l.Consumer == as && l.PreviousConsumer != "" && (as == "s" || before.AllocatedHost() != host) {
			*w.guest(host, l.PreviousConsumer) = false
		}
		// the guest is gone before its agent has its new id
		if l.Host == host && l.PreviousConsumer == as && (l.Consumer == "s" || before.AllocatedHost() != host) {
			*w.guest(host, l.Consumer) = false
		}
	}
}

// addGuest adds a guest that an agent reports, under its present id.
func (w *facts) addGuest(before Server, host, as string) {
	if before.Expects(as, host) {
		*w.guest(host, as) = true
	}
	w.renamed(before, host, as)
}

func (w *facts) renamed(before Server, host, as string) {
	for _, l := range before.Residences() {
		if was := w.guest(host, l.PreviousConsumer); l.Host == host && l.Consumer == as && !l.Gone && *was {
			*was = false
			*w.guest(host, as) = true
		}
	}
}

func wrong(s Server, w facts) string {
	last := func(want ...State) bool { return slices.Contains(want, s.State) }
	phase := func(want ...MovePhase) bool { return slices.Contains(want, s.Phase()) }
	residences := s.Residences()
	for i, c := range allConsumers {
		if !w.claims[i] {
			continue
		}
		owned := c == "s" && !last("", Preparing, Scheduling, Shelved, Error, DeletedAwaitingCleanup, Deleted) &&
			!phase(SchedulingDestination, AwaitingSourceAck, RevertBlocked) &&
			(s.Move == nil || s.Move.AllocationsMoved() || s.Move.From.Consumer == "s") ||
			slices.ContainsFunc(residences, func(l Residence) bool { return l.Consumer == c })
		if !owned {
			return c + " may have an allocation that is not released"
		}
	}
	for h, host := range allHosts {
		for i, id := range allConsumers {
			if !w.guests[h][i] {
				continue
			}
			if why := wrongGuest(s, residences, host, id); why != "" {
				return why
			}
		}
	}
	own := s.ownSteps()
	steps := len(own)
	if why := wrongImage(s); why != "" {
		return why
	}
	switch {
	case s.State != "" && !slices.Contains(States(), s.State):
		return "an unknown state"
	case s.Move != nil && !slices.Contains(MovePhases(), s.Move.Phase):
		return "an unknown phase"
	case (s.State == Moving) != (s.Move != nil):
		return "it moves without a move, or has a move and does not move"
	case (last(Spawning, Active, DeletingGuest, AwaitingMinCount, Shelving) || phase(SpawningDestination, Resized,
		StoppingSource, PreLiveMigration, LiveMigrating, Reverting)) && s.Host == "":
		return "it is placed on no host"
	case slices.Equal(own, []Step{CreateImage}), slices.Equal(own, []Step{CheckImage}):
	case last(Active) && !s.BoundTo(s.Host) && slices.Equal(own, []Step{BindPorts}): // the guest exists
	case (s.awaitsPorts() || s.AwaitsBindings() && !s.withdraws()) && s.portDevicesPicked() &&
		slices.Equal(own, []Step{BindPorts}):
	case (last(Error, Deleted, Active, Spawning, DeletingGuest, Shelved, Shelving, DeletedAwaitingCleanup) ||
		phase(SpawningDestination, Resized, AwaitingSourceAck, StoppingSource, PreLiveMigration, LiveMigrating, Reverting,
			RevertBlocked)) != (steps == 0) && s.State != "":
		return "a state that waits or ends has a step, or one on the way has none"
	case (last(Claiming) || phase(ClaimingDestination, MovingAllocations)) && len(s.Choices) == 0:
		return "there is nothing to claim"
	case (last(Error, Failing) || phase(RevertBlocked)) && (s.Fault == nil || s.Fault.Message == ""):
		return "it fails without a sentence"
	case last(Deleted) && s.Ended.IsZero():
		return "it ended at no time"
	case last(DeletedAwaitingCleanup) && len(s.Leftovers)+len(s.UnusedImages) == 0:
		return "it lingers for nothing"
	case s.Round > MaxRounds:
		return "too many rounds"
	case (last(Spawning) || phase(SpawningDestination)) && !s.withdraws() && (len(s.Requests) == 0 ||
		slices.ContainsFunc(s.Requests, func(r pci.Request) bool { return len(r.Providers) != 1 })):
		return "its requests do not name the chosen provider"
	}
	for i, l := range residences {
		if slices.ContainsFunc(residences[:i], func(other Residence) bool { return other.Consumer == l.Consumer }) {
			return "two residences of consumer " + l.Consumer
		}
	}
	return ""
}

// wrongImage returns what is wrong with the image of a server that is shelved, or an empty string.
func wrongImage(s Server) string {
	i := s.ShelvedImage
	saving := s.Task == ShelvingPendingUpload || s.Task == ShelvingUploading
	copying := s.Task == ImageSnapshot || s.Task == ImageBackup || s.Task == ImageUploading
	switch {
	case copying != (i != nil && i.Copy != nil) || copying && (s.State != Active || s.Shelved):
		return "its disk is copied to no image, or an image waits for no copy"
	case !s.ShelvedAt.IsZero() && s.Requested.IsZero() &&
		(i == nil || i.Copy != nil || i.SHA512 == "" || s.State != Active || s.IsSoftDeleted()):
		return "it is shelved on its host without an image, or without a guest"
	case s.IsSoftDeleted() && i != nil:
		return "it is soft-deleted and keeps its image"
	case saving && (i == nil || s.State != Active):
		return "its disk becomes an image, and there is none or no guest"
	case i != nil && s.Shelved && i.SHA512 == "":
		return "the guest is removed and its disk is not uploaded"
	case i != nil && !s.Requested.IsZero():
		return "it is deleted and keeps its image"
	case i != nil && slices.Contains(s.UnusedImages, i.ID):
		return "the image that it needs is deleted"
	case len(s.UnusedImages) > 0 && s.State == Deleted:
		return "it is deleted and its image is not"
	case s.Shelved && s.presence() == building && i != nil &&
		!slices.ContainsFunc(s.Entries(), func(e Entry) bool { return e.DiskImage == i.ID }):
		return "its guest is built without the image"
	case slices.ContainsFunc(s.Entries(), func(e Entry) bool { return e.UploadTo != "" && e.Power != Off && !e.CopyDisk }):
		return "the disk of a guest that runs is uploaded"
	}
	return ""
}

// wrongGuest returns why a guest may not be on a host, or an empty string.
func wrongGuest(s Server, residences []Residence, host, id string) string {
	at := host + " " + id
	if !slices.ContainsFunc(residences, func(l Residence) bool {
		return l.Host == host &&
			(l.Consumer == id || l.PreviousConsumer == id)
	}) {
		return "its guest " + at + " may be on a host that does not count it"
	}
	if l, ok := s.NextLeftover(); ok && l.Host == host && (l.Consumer == id) {
		return "what it left is given back while its guest " + at + " may be there"
	}
	others := slices.ContainsFunc(residences, func(l Residence) bool {
		return l.Host == host && (l.Consumer == id || l.PreviousConsumer == id) && l.Consumer != "s"
	})
	if slices.Contains(s.Steps(), Release) && id == "s" && !others {
		return "its claim is given back while its guest " + at + " may be there"
	}
	return ""
}

type node struct {
	Server
	facts
}

// situation is the part of a node that determines which events may follow.
type situation struct {
	minCount, round, choices                 int
	minCountReached, reported, shelved       bool
	soft, kept                               bool
	fault, launched, requested, moved, twice bool
	stage, host, previous, rescue, rescued   string
	power, actual                            Power
	task                                     Task
	move                                     moveSituation
	from                                     residenceSituation
	leftovers                                [3]residenceSituation // more are never reached
	facts                                    facts
	networks, ports                          int
	bound, direct, picked, refused, awaits   bool
	image                                    ShelvedImage
	unused                                   int
}

type moveSituation struct {
	kind                                                         Kind
	stopSource, sourceStopped, revert, failed, fromLost, aborted bool
}

type residenceSituation struct {
	consumer, previous, host string
	gone                     bool
}

func situationOf(l Residence) residenceSituation {
	return residenceSituation{l.Consumer, l.PreviousConsumer, l.Host, l.Gone}
}

// key returns the same situation for nodes that the same events may follow.
func (n node) key() situation {
	s := n.Server
	k := situation{minCount: s.MinCount, round: s.Round, choices: len(s.Choices), minCountReached: s.MinCountReached,
		reported: s.Reported, actual: s.Actual, rescue: s.RescueImage, rescued: s.Rescued, shelved: s.Shelved,
		fault:    s.Fault != nil,
		launched: !s.Launched.IsZero(), requested: !s.Requested.IsZero(), moved: s.Migration != nil,
		twice: s.Migration != nil && s.Migration.ID == "m2", stage: s.Stage(), host: s.Host, previous: s.PreviousConsumer,
		power: s.Power, task: s.Task, facts: n.facts, networks: len(s.Networks), ports: len(s.Ports),
		bound: s.BoundTo(s.Host), direct: len(s.Networks) > 0 && s.Networks[0].Tag == withDevice,
		picked: s.portDevicesPicked(), refused: s.PortsRefused != "", awaits: s.AwaitsBindings()}
	k.unused, k.soft, k.kept = len(s.UnusedImages), s.IsSoftDeleted(), !s.ShelvedAt.IsZero()
	if s.ShelvedImage != nil {
		k.image = *s.ShelvedImage
	}
	if m := s.Move; m != nil {
		k.move = moveSituation{m.Kind, m.StopSource, m.SourceStopped, m.RevertRequested, m.Failed != "", m.SourceLost != "",
			m.Aborted}
		k.from = situationOf(m.From)
	}
	for i, l := range s.Leftovers {
		k.leftovers[i] = situationOf(l)
	}
	return k
}

// trim takes away what grows and does not matter: of the rounds, only the last are walked.
func trim(s Server) Server {
	s.Round, s.Try, s.History, s.FailedHosts, s.FilterFailures, s.LastAction = max(s.Round,
		MaxRounds-2), 1, nil, nil, nil, ""
	s.Builds = 0
	if s.Move != nil {
		move := *s.Move
		move.Refusals = MaxRefusals - 1
		s.Move = &move
	}
	return s
}

// Everything that can happen to a server happens to it, in every order, through up to two moves: after each event the
// invariants hold, and whatever the state, deleting it and letting Placement and the agents answer ends in deleted with
// nothing held; and when everybody does his part, it comes to rest.
func TestAllEventSequences(t *testing.T) {
	start := node{Server: fresh()}
	together := start
	together.MinCount = 2
	networked := start
	networked.Networks = []NetworkRequest{{Network: "n"}}
	direct := start
	direct.Networks = []NetworkRequest{{Network: "n", Tag: withDevice}}
	seen := map[situation]bool{start.key(): true, together.key(): true, networked.key(): true, direct.key(): true}
	states, phases := map[State]bool{}, map[MovePhase]bool{}
	queue := []node{start, together, networked, direct}
	for len(queue) > 0 {
		n := queue[0]
		queue = queue[1:]
		states[n.State], phases[n.Phase()] = true, true
		if n.State != "" {
			comesToRest(t, n)
			canEnd(t, n)
		}
		before := snapshot(t, n.Server)
		for _, e := range events(n.Server) {
			s, known := transition(n.Server, e, noon)
			if !known {
				t.Fatalf("%s × %T: the transition is not listed", n.Stage(), e)
			}
			s = trim(s)
			next := node{s, n.after(n.Server, e, s)}
			if why := wrong(s, next.facts); why != "" {
				t.Fatalf("%s (%+v) × %#v → %s (%+v): %s\n%s\n%s", n.Stage(), n.facts, e, s.Stage(), next.facts, why, before,
					snapshot(t, s))
			}
			if key := next.key(); !seen[key] && len(s.Leftovers) < 2 {
				seen[key] = true
				queue = append(queue, next)
			}
		}
		if snapshot(t, n.Server) != before {
			t.Fatalf("%s: an event has changed the server given", before)
		}
	}
	for _, s := range append(States(), "") {
		if !states[s] {
			t.Errorf("%s was never reached", s)
		}
	}
	for _, p := range MovePhases() {
		if !phases[p] {
			t.Errorf("%s was never reached", p)
		}
	}
	if len(seen) < 1000 {
		t.Errorf("only %d situations: the walk shows nothing", len(seen))
	}
	t.Logf("%d situations", len(seen))
}

func snapshot(t *testing.T, s Server) string {
	data, err := json.Marshal(s)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

// goneFrom is the report of an agent that has removed the guest of a residence.
func goneFrom(r Residence) Event {
	removed := []string{r.Consumer}
	if r.PreviousConsumer != "" {
		removed = append(removed, r.PreviousConsumer)
	}
	return GuestGone{Host: r.Host, Consumer: r.Consumer, Removed: removed}
}

// answers returns the events that complete what is due or awaited, as if nothing failed.
func answers(s Server) []Event {
	for _, l := range s.Leftovers {
		if !l.Gone {
			return []Event{goneFrom(l)}
		}
	}
	if l, ok := s.NextLeftover(); ok {
		return []Event{LeftoverReleased{Consumer: l.Consumer}}
	}
	switch {
	case s.isDue(CreateImage):
		return []Event{ImageCreated{ID: s.ShelvedImage.ID}}
	case s.isDue(CheckImage):
		return []Event{ImageChecked{ID: s.ShelvedImage.ID}}
	case s.isDue(Prepare):
		return []Event{prepared}
	case s.isDue(Schedule):
		return []Event{Chosen{Choices: []schedule.Choice{choice("b")}, Candidates: 1}}
	case s.isDue(Claim):
		return []Event{Claimed{Try: s.Try}}
	case s.isDue(CheckMinCount):
		return []Event{MinCountReached{}}
	case s.isDue(BindPorts):
		bound := PortsBound{Host: s.Host}
		for _, p := range s.Ports {
			p.Host = s.Host
			picked, _ := s.DeviceOf(p.ID)
			p.Device = picked.Address
			bound.Ports = append(bound.Ports, p)
		}
		return []Event{bound}
	case s.isDue(MoveAllocations):
		return []Event{AllocationsMoved{}}
	case s.isDue(RestoreAllocations):
		return []Event{AllocationsRestored{}}
	case s.isDue(Release):
		return []Event{Released{}}
	case s.State == DeletingGuest, s.State == Shelving, s.Phase() == Reverting, s.withdraws():
		return []Event{goneFrom(s.ownResidence())}
	case s.Phase() == RevertBlocked:
		return []Event{ActionRequested{ID: "w", Action: Reset}}
	case s.Phase() == LiveMigrating:
		return []Event{GuestMigrated{Host: s.Move.From.Host, Consumer: s.Move.From.Consumer}}
	}
	var list []Event
	for _, e := range s.Entries() {
		switch {
		case e.Incoming || e.ClaimOnly:
			list = append(list, GuestClaimed{Host: e.Host, Consumer: e.Consumer, Devices: []schedule.Picked{{
				RequestID: "R", Address: "0000:3b:00.1"}}})
		case e.UploadTo != "":
			list = append(list, GuestStopped{Host: e.Host, Consumer: e.Consumer,
				Upload: &DiskUpload{Image: e.UploadTo, Bytes: 7, SHA512: "sum"}})
		case e.Power == Off, e.Power == Suspended:
			list = append(list, GuestStopped{Host: e.Host, Consumer: e.Consumer, Suspended: e.Power == Suspended,
				Rescue: e.Rescue})
		default:
			list = append(list, GuestRunning{Host: e.Host, Consumer: e.Consumer, Paused: e.Power == Paused,
				Rescue: e.Rescue})
		}
	}
	if len(s.UnusedImages) > 0 {
		list = append(list, ImageDeleted{ID: s.UnusedImages[0]})
	}
	return list
}

// comesToRest lets everybody do his part.
func comesToRest(t *testing.T, n node) {
	s := n.Server
	for range 40 {
		waits := slices.Contains([]State{Active, Error, Shelved, Deleted}, s.State) || s.Phase() == Resized
		if waits && s.TaskState() == "" && len(s.Leftovers)+len(s.UnusedImages) == 0 {
			return
		}
		for _, e := range answers(s) {
			s, _ = Next(s, e, noon)
		}
	}
	t.Fatalf("%s does not come to rest: it ends in\n%s", snapshot(t, n.Server), snapshot(t, s))
}

// canEnd deletes the server and completes each step.
func canEnd(t *testing.T, n node) {
	s, _ := Next(n.Server, DeleteRequested{}, noon)
	for range 20 {
		if s.State == Deleted {
			return
		}
		for _, e := range answers(s) {
			s, _ = Next(s, e, noon)
		}
	}
	t.Fatalf("from %s, deleting ends in\n%s", snapshot(t, n.Server), snapshot(t, s))
}

// Each answer to a due step moves the server on, or the runner would repeat it without end.
func TestEveryResultChangesTheServer(t *testing.T) {
	for _, c := range []struct {
		state  State
		answer Event
	}{
		{Preparing, prepared},
		{Preparing, Refused{Step: Prepare}},
		{Scheduling, Chosen{Choices: []schedule.Choice{choice("a")}}},
		{Scheduling, Chosen{}},
		{Scheduling, NoValidHost{}},
		{Scheduling, NoValidHost{Again: true}},
		{Scheduling, Refused{Step: Schedule}},
		{Claiming, Claimed{Try: 1}},
		{Claiming, ClaimLost{Try: 1}},
		{Claiming, Refused{Step: Claim}},
		{Rescheduling, Released{}},
		{Failing, Released{}},
		{DeletingAllocation, Released{}},
	} {
		s := fresh()
		s.State, s.Try, s.Choices = c.state, 1, []schedule.Choice{choice("a"), choice("b")}
		next, _ := Next(s, c.answer, noon)
		if next.State == s.State && next.Try == s.Try && next.Round == s.Round {
			t.Errorf("%s × %T stays where it is", c.state, c.answer)
		}
	}
}
