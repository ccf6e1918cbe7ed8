package rpc

import (
	"github.com/digitalocean/go-libvirt"
	"github.com/google/uuid"
)

// Domain identifies a domain. ID is -1 while it does not run.
type Domain struct {
	Name string
	UUID uuid.UUID
	ID   int
}

// domainOf returns a domain of go-libvirt.
func domainOf(d libvirt.Domain) Domain { return Domain{d.Name, uuid.UUID(d.UUID), int(d.ID)} }

// known returns the domain for go-libvirt.
func (d Domain) known() libvirt.Domain {
	return libvirt.Domain{Name: d.Name, UUID: libvirt.UUID(d.UUID), ID: int32(d.ID)}
}

// Event is a change of a domain's state (virDomainEventType) or devices.
type Event struct {
	Domain Domain
	Kind   EventKind
	Device string // libvirt's name of a device that was removed or not
}

// EventKind is the kind of an event.
type EventKind int

// The kinds of events.
const (
	EventDefined   = EventKind(libvirt.DomainEventDefined)
	EventUndefined = EventKind(libvirt.DomainEventUndefined)
	EventStarted   = EventKind(libvirt.DomainEventStarted)
	EventSuspended = EventKind(libvirt.DomainEventSuspended)
	EventResumed   = EventKind(libvirt.DomainEventResumed)
	EventStopped   = EventKind(libvirt.DomainEventStopped)
	EventCrashed   = EventKind(libvirt.DomainEventCrashed)

	EventDeviceRemoved    EventKind = -1 // these two are events of their own for libvirt
	EventDeviceNotRemoved EventKind = -2
)

// eventOf returns an event of go-libvirt. known is false for events of other kinds.
func eventOf(of any) (e Event, known bool) {
	switch of := of.(type) {
	case *libvirt.DomainEventCallbackLifecycleMsg:
		return Event{Domain: domainOf(of.Msg.Dom), Kind: EventKind(of.Msg.Event)}, true
	case *libvirt.DomainEventCallbackDeviceRemovedMsg:
		return Event{Domain: domainOf(of.Msg.Dom), Kind: EventDeviceRemoved, Device: of.Msg.DevAlias}, true
	case *libvirt.DomainEventCallbackDeviceRemovalFailedMsg:
		return Event{Domain: domainOf(of.Dom), Kind: EventDeviceNotRemoved, Device: of.DevAlias}, true
	}
	return e, false
}
