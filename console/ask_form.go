package console

import (
	"net/url"
	"slices"
	"strings"

	"github.com/openberth/berth/api/placement"
	"github.com/openberth/berth/fault"
	"github.com/openberth/berth/resource"
)

// askForm is the form of a request: a flavor with ports, or groups. Its fields are parameters of the address of the
// page. Those of groups are the parameters of Placement's API.
type askForm struct {
	Flavor, Port string
	Flavors      []string // to choose from
	NoFlavors    string   // why they could not be read
	Groups       []askGroup
	Policy       string // of several groups
	More         string // further parameters of Placement's API, as a query
}

// askGroup is a group of the form. Suffix is empty for the group of the server itself.
type askGroup struct{ Suffix, Resources, Required string }

// Name returns the heading of a group.
func (g askGroup) Name() string {
	if g.Suffix == "" {
		return "Server"
	}
	return "Group " + g.Suffix
}

// The parameters of the address that are not Placement's, and those with a field for each group.
const (
	askFlavor = "flavor"
	askPort   = "port"
	askMore   = "more"
	theme     = "theme" // read by the script

	askResources = "resources"
	askRequired  = "required"
	askPolicy    = "group_policy"
)

// formGroups are the groups that the form always has.
var formGroups = []string{"", "1", "2", "3"}

// newAskForm returns the form with the values of an address.
func newAskForm(q url.Values) askForm {
	f := askForm{Flavor: strings.TrimSpace(q.Get(askFlavor)), Port: strings.TrimSpace(q.Get(askPort)),
		Policy: q.Get(askPolicy)}
	fields, more := map[string]string{}, url.Values{}
	suffixes := slices.Clone(formGroups)
	for key, values := range q {
		suffix, isResources := strings.CutPrefix(key, askResources)
		if !isResources {
			suffix, _ = strings.CutPrefix(key, askRequired)
		}
		switch {
		case slices.Contains([]string{askFlavor, askPort, askMore, theme, askPolicy}, key):
			continue
		case isResources || strings.HasPrefix(key, askRequired):
			if !slices.Contains(suffixes, suffix) && strings.TrimSpace(values[0]) != "" {
				suffixes = append(suffixes, suffix)
			}
			fields[key], values = strings.TrimSpace(values[0]), values[1:]
		}
		for _, value := range values {
			if value = strings.TrimSpace(value); value != "" {
				more.Add(key, value)
			}
		}
	}
	slices.Sort(suffixes)
	for _, suffix := range suffixes {
		f.Groups = append(f.Groups, askGroup{suffix, fields[askResources+suffix], fields[askRequired+suffix]})
	}
	f.More = strings.Trim(strings.TrimSpace(q.Get(askMore))+"&"+readable(more), "&")
	return f
}

// readable encodes parameters for a field, which people read.
func readable(q url.Values) string {
	text, err := url.QueryUnescape(q.Encode())
	if err != nil || strings.ContainsAny(text, "%+#") {
		return q.Encode()
	}
	return text
}

// shownGroups is the number of groups that the form always shows; others are opened.
const shownGroups = 2

// First returns the groups that the form always shows.
func (f askForm) First() []askGroup { return f.Groups[:shownGroups] }

// Rest returns the other groups.
func (f askForm) Rest() []askGroup { return f.Groups[shownGroups:] }

// IsLong reports whether the request has more than the groups that the form always shows.
func (f askForm) IsLong() bool {
	return f.More != "" || slices.ContainsFunc(f.Rest(), func(g askGroup) bool { return g.Resources+g.Required != "" })
}

// query returns the parameters of Placement's API that the form has.
func (f askForm) query() (url.Values, error) {
	q, err := url.ParseQuery(f.More)
	if err != nil {
		return nil, fault.New(fault.Invalid, "%q are not query parameters: %w; write them as key=value, with & between "+
			"them", f.More, err)
	}
	for _, g := range f.Groups {
		for key, value := range map[string]string{askResources: g.Resources, askRequired: g.Required} {
			if value != "" {
				q[key+g.Suffix] = append([]string{strings.ReplaceAll(value, " ", "")}, q[key+g.Suffix]...)
			}
		}
	}
	return q, nil
}

// isEmpty reports whether the form has no request.
func (f askForm) isEmpty() bool {
	q, err := f.query()
	return err == nil && len(q) == 0 && f.Flavor == "" && f.Port == ""
}

// maxAsked is the number of candidates that a page requests.
const maxAsked = 500

// ask returns the request of the groups of the form.
func (f askForm) ask() (resource.Ask, error) {
	q, err := f.query()
	if err != nil {
		return resource.Ask{}, err
	}
	suffixed := map[string]bool{}
	for key := range q {
		if suffix, is := strings.CutPrefix(key, askResources); is && suffix != "" {
			suffixed[suffix] = true
		}
	}
	if len(suffixed) > 1 && q.Get(askPolicy) == "" {
		q.Set(askPolicy, string(resource.PolicyNone))
		if f.Policy != "" {
			q.Set(askPolicy, f.Policy)
		}
	}
	ask, err := placement.ParseAsk(placement.Latest, q)
	if ask.Limit == 0 || ask.Limit > maxAsked {
		ask.Limit = maxAsked
	}
	return ask, err
}
