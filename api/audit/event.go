// Package audit records who did what, when and from where: one event for each request that writes, with the fields of
// CADF (DMTF DSP0262) and the names that pyCADF gives them, as OpenStack's services emit them.
package audit

import (
	"crypto/rand"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// Event is one CADF event.
type Event struct {
	TypeURI     string   `json:"typeURI"`
	ID          string   `json:"id"`
	EventType   string   `json:"eventType"` // activity; monitor: lost events, unknown callers
	EventTime   string   `json:"eventTime"` // UTC, RFC 3339 with microseconds
	Action      string   `json:"action"`    // create, update, delete, update/<action>; lose, authenticate
	Outcome     string   `json:"outcome"`   // success, failure, or unknown if the client left first
	Initiator   Resource `json:"initiator"`
	Target      Resource `json:"target"`
	Observer    Resource `json:"observer"`
	RequestPath string   `json:"requestPath"` // without the query
	Reason      Reason   `json:"reason"`
	Tags        []string `json:"tags,omitempty"` // the request id, and that which the client chose
}

// Resource is who acts, what is acted on, or which service observes.
type Resource struct {
	TypeURI     string `json:"typeURI"`
	ID          string `json:"id"`
	Name        string `json:"name,omitempty"`
	Domain      string `json:"domain,omitempty"`
	ProjectID   string `json:"project_id,omitempty"`
	ProjectName string `json:"project_name,omitempty"`
	Host        *Host  `json:"host,omitempty"`
}

// Host is where a request comes from.
type Host struct {
	Address string `json:"address"`
	Agent   string `json:"agent,omitempty"` // the header User-Agent
}

// Reason is the status of the answer.
type Reason struct {
	ReasonType string `json:"reasonType"` // HTTP
	ReasonCode string `json:"reasonCode"`
	PolicyID   string `json:"policyId,omitempty"` // the policy rule of the request
}

// Request is what an API knows of a request that it has answered.
type Request struct {
	Service   string // placement, compute, network, image
	Method    string
	Path      string // as sent, without the query; that of the route if the path has a secret
	Matched   string // the path that Route matches
	Route     string // the pattern of the route, such as /servers/{id}
	Action    string // the name of an action in the body; empty: none
	Rule      string // the policy rule; empty: none
	Status    int
	Gone      bool // the client left before the answer
	Initiator Resource
	IDs       []string // of the request
	At        time.Time
}

const (
	eventURI   = "http://schemas.dmtf.org/cloud/audit/1.0/event"
	timeFormat = "2006-01-02T15:04:05.000000+0000"
)

// longest is the length of a text that the client chose, in bytes.
const longest = 500

// NewEvent returns the event of a request.
func NewEvent(r Request) Event {
	e := Event{TypeURI: eventURI, ID: rand.Text(), EventType: "activity",
		EventTime: r.At.UTC().Format(timeFormat), Action: actionOf(r), Outcome: outcomeOf(r),
		Initiator: r.Initiator, RequestPath: clip(r.Path), Tags: r.IDs,
		Reason:   Reason{ReasonType: "HTTP", ReasonCode: strconv.Itoa(r.Status), PolicyID: r.Rule},
		Observer: Resource{TypeURI: "service/" + r.Service, ID: "target", Name: r.Service}}
	e.Target = targetOf(r)
	if e.Initiator.TypeURI = "service/security/account/user"; e.Initiator.ID == "" {
		e.Initiator.ID = "unknown"
	}
	e.Initiator.Name = clip(e.Initiator.Name)
	if e.Initiator.Host != nil {
		e.Initiator.Host = &Host{Address: e.Initiator.Host.Address, Agent: clip(e.Initiator.Host.Agent)}
	}
	return e
}

// clip returns at most the first bytes of a text, as valid UTF-8.
func clip(text string) string {
	if len(text) > longest {
		text = text[:longest] + "…"
	}
	return strings.ToValidUTF8(text, "\uFFFD")
}

func actionOf(r Request) string {
	switch {
	case r.Action != "":
		return "update/" + clip(r.Action)
	case r.Method == http.MethodPost:
		return "create"
	case r.Method == http.MethodDelete:
		return "delete"
	default:
		return "update"
	}
}

func outcomeOf(r Request) string {
	switch {
	case r.Gone:
		return "unknown"
	case r.Status < http.StatusBadRequest:
		return "success"
	default:
		return "failure"
	}
}

// targetOf returns what a request acts on: the kind is the route without its variables, the id is the last variable.
func targetOf(r Request) Resource {
	kinds, id := []string{"service", r.Service}, ""
	pattern, parts := strings.Split(strings.Trim(r.Route, "/"), "/"), strings.Split(strings.Trim(r.Matched, "/"), "/")
	for i, part := range pattern {
		if !strings.HasPrefix(part, "{") {
			kinds = append(kinds, part)
		} else if i < len(parts) {
			id = parts[i]
		}
	}
	if id == "" {
		id = "none"
	}
	return Resource{TypeURI: strings.TrimRight(strings.Join(kinds, "/"), "/"), ID: clip(id)}
}

// Writes reports whether a method changes something.
func Writes(method string) bool {
	return method != http.MethodGet && method != http.MethodHead && method != http.MethodOptions
}

// lostEvent returns the event that reports lost ones.
func lostEvent(n int64, why error, now time.Time) Event {
	return Event{TypeURI: eventURI, ID: rand.Text(), EventType: "monitor",
		EventTime: now.UTC().Format(timeFormat), Action: "lose", Outcome: "failure",
		Initiator: Resource{TypeURI: "service/security", ID: "audit"},
		Target:    Resource{TypeURI: "service/security/audit/event", ID: "none", Name: fmt.Sprintf("%d events", n)},
		Observer:  Resource{TypeURI: "service/security", ID: "target", Name: "audit"},
		Reason:    Reason{ReasonType: "OS", ReasonCode: clip(why.Error())}}
}
