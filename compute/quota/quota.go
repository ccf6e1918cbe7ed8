// Package quota has the limits of what projects and users may have, and the sentence of a refusal.
//
// A resource is one of Nova's quotas, or `class:` and the name of a resource class of Placement. A limit is a number,
// or negative: unlimited.
package quota

import (
	"cmp"
	"errors"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/openberth/berth/fault"
	"github.com/openberth/berth/resource"
)

// The quotas of Nova that Berth counts or checks.
const (
	Instances          = "instances" // servers of a project
	Cores              = "cores"     // VCPUs of its servers, by their flavors
	RAM                = "ram"       // memory of its servers in MiB, by their flavors
	MetadataItems      = "metadata_items"
	KeyPairs           = "key_pairs" // of a user
	ServerGroups       = "server_groups"
	ServerGroupMembers = "server_group_members"
	InjectedFiles      = "injected_files"
	InjectedFileBytes  = "injected_file_content_bytes"
	InjectedPathBytes  = "injected_file_path_bytes"
)

// ClassPrefix begins the name of the quota of a resource class.
const ClassPrefix = "class:"

// IsClass reports whether the name is that of a resource class: a standard one, or a custom one.
func IsClass(name string) bool {
	return resource.IsStandardClass(resource.Class(name)) || resource.IsCustom(name)
}

// Unlimited is the limit of what is not restricted.
const Unlimited = -1

// Most is the largest limit, as in Nova.
const Most = 1<<31 - 1

// Amounts are numbers by resource: limits, what is used or what is requested.
type Amounts map[string]int

// Defaults returns the limits of a project for which nothing is configured.
func Defaults() Amounts {
	return Amounts{Instances: Unlimited, Cores: Unlimited, RAM: Unlimited, MetadataItems: 128, KeyPairs: 100,
		ServerGroups: 10, ServerGroupMembers: 10, InjectedFiles: 5, InjectedFileBytes: 10240, InjectedPathBytes: 255}
}

// Limit returns the limit of a resource; Unlimited if there is none.
func (a Amounts) Limit(resource string) int {
	if limit, ok := a[resource]; ok && limit >= 0 {
		return limit
	}
	return Unlimited
}

// With returns the amounts with those of others, which replace them.
func (a Amounts) With(others Amounts) Amounts {
	all := maps.Clone(a)
	if all == nil {
		all = Amounts{}
	}
	maps.Copy(all, others)
	return all
}

// Add adds amounts of others, times a number.
func (a Amounts) Add(others Amounts, times int) {
	for resource, n := range others {
		a[resource] += n * times
	}
}

// Restrict reports whether one of the resources has a limit.
func (a Amounts) Restrict(resources Amounts) bool {
	for resource, n := range resources {
		if n > 0 && a.Limit(resource) >= 0 {
			return true
		}
	}
	return false
}

// Growth returns what after has more than before.
func Growth(before, after Amounts) Amounts {
	more := Amounts{}
	for resource, n := range after {
		if n > before[resource] {
			more[resource] = n - before[resource]
		}
	}
	return more
}

// Exceeded is the error of a request that would exceed limits. Its message is Nova's.
type Exceeded struct {
	Over                   []string // resources, sorted
	Requested, Used, Limit Amounts
}

// Check returns nil if the request fits into the limits beside what is used, or fault.Forbidden that wraps Exceeded.
func Check(limits, used, requested Amounts) error {
	e := &Exceeded{Requested: requested, Used: used, Limit: limits}
	for resource, n := range requested {
		if limit := limits.Limit(resource); n > 0 && limit >= 0 && used[resource]+n > limit {
			e.Over = append(e.Over, resource)
		}
	}
	if len(e.Over) == 0 {
		return nil
	}
	slices.Sort(e.Over)
	return fault.Wrap(fault.Forbidden, e)
}

// IsExceeded reports whether an error is that of a request that would exceed a limit.
func IsExceeded(err error) bool {
	_, exceeded := errors.AsType[*Exceeded](err)
	return exceeded
}

// Error returns Nova's sentence: the limits, what is used and what is requested, each in the order of the resources.
func (e *Exceeded) Error() string {
	list := func(of Amounts) string {
		var texts []string
		for _, resource := range e.Over {
			texts = append(texts, strconv.Itoa(of[resource]))
		}
		return strings.Join(texts, ", ")
	}
	over := strings.Join(e.Over, ", ")
	return "Quota exceeded for " + over + ": Requested " + list(e.Requested) + ", but already used " + list(e.Used) +
		" of " + list(e.Limit) + " " + over
}

// Fit returns how many of the equal parts of a request fit, of which there are count.
func (e *Exceeded) Fit(count int) int {
	most := count
	for _, resource := range e.Over {
		each := cmp.Or(e.Requested[resource]/count, 1)
		most = min(most, max(0, e.Limit[resource]-e.Used[resource])/each)
	}
	return most
}
