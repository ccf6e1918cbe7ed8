// Package placement defines the HTTP API of OpenStack Placement for servers and clients: the wire types, the
// microversions, the syntax of queries, the schemas of request bodies, and a client.
//
// Berth's Placement service parses requests with it, and all other services call Placement (Berth's or OpenStack's own)
// through Client. It implements OpenStack's API reference for Placement, microversions 1.0 to 1.39.
package placement

import (
	"context"
	"net/http"
	"strings"

	"github.com/openberth/berth/api/rest"
	"github.com/openberth/berth/fault"
	"github.com/openberth/berth/provider"
)

// ReasonHeader is the header with the reason, in one line, for an empty list of candidates. Only Berth sends it.
const ReasonHeader = "Openstack-Berth-Reason"

// CatalogType is the type of the service in Keystone's catalog.
const CatalogType = "placement"

// CandidatesHeader is a header of a query for candidates. With the value ForScheduling, Berth's Placement returns what
// a scheduler needs that asks for few candidates: one of each host in turn, beginning with a random host, so that
// queries with a small limit spread over all hosts; and summaries only of the providers used and of their roots,
// without traits. With ForPlanning the summaries are those of all providers of the trees, with traits, as without the
// header. OpenStack's Placement ignores the header.
const (
	CandidatesHeader = "Openstack-Berth-Candidates"
	ForScheduling    = "scheduling"
	ForPlanning      = "planning"
)

// WithWholeTrees returns a context for queries for candidates whose answers have summaries of all providers of the
// trees, also if the client sends ForScheduling.
func WithWholeTrees(ctx context.Context) context.Context {
	return context.WithValue(ctx, wholeTreesKey{}, true)
}

type wholeTreesKey struct{}

// ProjectHeader is a header of a query for candidates of a service: the project for which it asks. Berth's Placement
// counts the time of the search to that project, so that the searches of one user do not delay those of another.
// OpenStack's Placement ignores the header.
const ProjectHeader = "Openstack-Berth-Project"

// ForProject returns a context for queries for candidates on behalf of a project.
func ForProject(ctx context.Context, project string) context.Context {
	return context.WithValue(ctx, projectKey{}, project)
}

type projectKey struct{}

// LimitHeader is a header of the answer to a query with CandidatesHeader: the limit of Berth's Placement for
// candidates, [placement] max_allocation_candidates; 0: none.
const LimitHeader = "Openstack-Berth-Limit"

// UndecidedKey is a member of the answer to a query with CandidatesHeader whose search has ended before it was
// complete: what was not decided, for people. It is at the end of the body, because the answer may be long and begin
// before.
const UndecidedKey = "berth_undecided"

// ExplanationKey is a member of the answer to a query with CandidatesHeader that has no candidates: the Explanation,
// without who holds what is missing.
const ExplanationKey = "berth_explanation"

// A request GET /resource_providers/{root}/allocations with any value of TreeStateHeader is answered by Berth's
// Placement with the amounts alone, and with the state of the tree in the same header, if its database is SQLite: a
// text that is the same until a client writes allocations on the tree of this root provider. A client may send it back
// in IfTreeStateHeader of PUT /allocations/{consumer}, as ROOT=STATE. The claim is then refused with the conflict
// CodeTreeChanged if allocations on the tree may have been removed since, by any client, by another process, or because
// the database was restored from a backup. OpenStack's Placement ignores and sends neither.
//
// With the value WholeTree the body has another member instead, "tree": the allocations on all providers of the tree,
// by provider and consumer. With the value OnlyState the answer has no allocations, if it has a state.
const (
	TreeStateHeader   = "Openstack-Berth-Tree-State"
	WholeTree         = "tree"
	OnlyState         = "only"
	IfTreeStateHeader = "Openstack-Berth-If-Tree-State"
)

// ParseIfTreeState returns the parts of a value of IfTreeStateHeader. Both are empty for an empty value. A value
// without a root is a state that no tree has.
func ParseIfTreeState(value string) (root provider.ID, state string) {
	at, state, found := strings.Cut(value, "=")
	if value != "" && (!found || state == "") {
		return "", value
	}
	return provider.ID(at), state
}

// Client calls a Placement service at microversion 1.39.
//
// Every error is a fault; an answer with an error status has a *rest.Status in its chain. fault.Conflict with the code
// CodeConcurrentUpdate means that a generation has changed: read the resource again and retry.
type Client struct{ REST *rest.Client }

// NewClient returns a client for the service at base, such as "http://127.0.0.1:8778". If client is nil, the timeout is
// one minute. token is sent as X-Auth-Token.
func NewClient(base string, client *http.Client, token string) *Client {
	return &Client{REST: &rest.Client{Base: strings.TrimSuffix(base, "/"), HTTP: client, JSONErrors: true,
		Headers: map[string]string{"X-Auth-Token": token, VersionHeader: Latest.Header()}}}
}

// Refused reports whether Placement has Refused a request in a way that a retry does not change.
func Refused(err error) bool {
	switch fault.KindOf(err) {
	case fault.Conflict, fault.NoCapacity, fault.Invalid, fault.NotFound, fault.Forbidden:
		return fault.CodeOf(err) != CodeConcurrentUpdate
	}
	return false
}
