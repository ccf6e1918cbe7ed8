package request

import (
	"github.com/openberth/berth/api/edge"
	api "github.com/openberth/berth/api/placement"
)

// Route is a path of the API with its methods, and Verb is one of them.
type (
	Route = edge.Route[*Call]
	Verb  = edge.Method[*Call]
)

// Read returns a verb that answers with JSON. rule is given without its prefix `placement:`.
func Read(since api.Version, rule string, handle func(*Call) error) Verb {
	return Verb{Spec: edge.Spec{Rule: "placement:" + rule, Since: int(since), Answer: true}, Handle: handle}
}

// Write returns a verb whose request has a JSON body. rule is given without its prefix `placement:`.
func Write(since api.Version, rule string, handle func(*Call) error) Verb {
	return Verb{Spec: edge.Spec{Rule: "placement:" + rule, Since: int(since), Body: true}, Handle: handle}
}

// Plain returns a verb that neither reads nor answers JSON. rule is given without its prefix `placement:`.
func Plain(since api.Version, rule string, handle func(*Call) error) Verb {
	return Verb{Spec: edge.Spec{Rule: "placement:" + rule, Since: int(since)}, Handle: handle}
}
