package rpc

import "github.com/google/uuid"

// Domain identifies a domain. ID is -1 while it does not run.
type Domain struct {
	Name string
	UUID uuid.UUID
	ID   int
}

func (e *encoder) domain(d Domain) {
	e.text(d.Name)
	e.fixed(d.UUID[:])
	e.word(uint32(int32(d.ID)))
}

func (d *decoder) domain() (out Domain) {
	out.Name = d.text()
	copy(out.UUID[:], d.take(len(out.UUID)))
	out.ID = d.number()
	return out
}

// Event is a change of a domain's state (virDomainEventType) or devices.
type Event struct {
	Domain Domain
	Kind   EventKind
	Detail int    // the reason, depending on Kind
	Device string // libvirt's name of a device that was removed or not
}

// EventKind is the kind of an event.
type EventKind int

// The kinds of events.
const (
	EventDefined   EventKind = 0
	EventUndefined EventKind = 1
	EventStarted   EventKind = 2
	EventSuspended EventKind = 3
	EventResumed   EventKind = 4
	EventStopped   EventKind = 5
	EventShutdown  EventKind = 6
	EventCrashed   EventKind = 8

	EventDeviceRemoved    EventKind = -1 // these two are events of their own for libvirt
	EventDeviceNotRemoved EventKind = -2
)

// decodeEvent decodes an event. known is false for events of other kinds.
func decodeEvent(p Procedure, payload []byte) (e Event, known bool, err error) {
	d := decoder{data: payload}
	d.number() // the id of the registration
	switch p {
	case domainEventLifecycle:
		e = Event{Domain: d.domain(), Kind: EventKind(d.number()), Detail: d.number()}
	case domainEventRemoved:
		e = Event{Domain: d.domain(), Kind: EventDeviceRemoved, Device: d.text()}
	case domainEventNotRemoved:
		e = Event{Domain: d.domain(), Kind: EventDeviceNotRemoved, Device: d.text()}
	default:
		return e, false, nil
	}
	return e, true, d.err()
}
