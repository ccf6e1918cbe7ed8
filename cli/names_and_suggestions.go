package cli

import (
	"context"
	"fmt"
	"net/url"
	"slices"
	"strings"

	"github.com/google/uuid"

	"github.com/openberth/berth/api/image"
	"github.com/openberth/berth/api/network"
	"github.com/openberth/berth/fault"
)

// unknownName returns the error for a name that no object of a kind has. known are the names of all objects; list is
// the command that shows them.
func unknownName(noun, name string, known []string, list string) error {
	slices.SortFunc(known, naturalOrder)
	return fault.New(fault.NotFound, "no %s has the id or the name %q; %s", noun, name,
		fault.DidYouMean(name, known, "`"+list+"` shows all"))
}

// plural returns the plural of a noun.
func plural(noun string) string {
	if short, is := strings.CutSuffix(noun, "y"); is {
		return short + "ies"
	}
	return noun + "s"
}

// counted returns a number of objects of a kind, such as "1 change".
func counted(n int, noun string) string {
	if n != 1 {
		noun = plural(noun)
	}
	return fmt.Sprintf("%d %s", n, noun)
}

// mostIDs is how many ids of objects with the same name an error has.
const mostIDs = 5

// severalNames returns the error for a name that several objects of a kind have.
func severalNames(noun, name string, ids []string) error {
	slices.Sort(ids)
	return fault.New(fault.Conflict, "%d %s have the name %q; use one of the ids %s", len(ids), plural(noun),
		name, strings.Join(ids[:min(len(ids), mostIDs)], ", "))
}

// networkID returns the id of a network by name or id.
func (g *Globals) networkID(ctx context.Context, idOrName string) (string, error) {
	return idByName(ctx, idOrName, "network", "berth network list", g.networks().Networks,
		func(n network.Network) (id, name string) { return n.ID, n.Name })
}

// portID returns the id of a port by name or id.
func (g *Globals) portID(ctx context.Context, idOrName string) (string, error) {
	return idByName(ctx, idOrName, "port", "berth port list", g.networks().Ports,
		func(p network.Port) (id, name string) { return p.ID, p.Name })
}

// idByName returns the id of the object with a name. A UUID is returned as it is: the service checks it. It returns
// fault.NotFound, with similar names, if no object has the name, and fault.Conflict if several have it.
func idByName[T any](ctx context.Context, idOrName, noun, command string,
	list func(context.Context, url.Values) ([]T, error), namesOf func(T) (id, name string)) (string, error) {
	if uuid.Validate(idOrName) == nil {
		return idOrName, nil
	}
	found, err := list(ctx, url.Values{"name": {idOrName}})
	if err != nil {
		return "", err
	}
	var ids []string
	for _, one := range found {
		id, _ := namesOf(one)
		ids = append(ids, id)
	}
	switch len(ids) {
	case 0:
		all, err := list(ctx, nil)
		if err != nil {
			return "", err
		}
		var known []string
		for _, one := range all {
			_, name := namesOf(one)
			known = append(known, name)
		}
		return "", unknownName(noun, idOrName, known, command)
	case 1:
		return ids[0], nil
	}
	return "", severalNames(noun, idOrName, ids)
}

// imageID returns the id of an image by name or id. Empty stays empty, and a UUID is returned as it is.
func imageID(ctx context.Context, g *Globals, idOrName string) (string, error) {
	if idOrName == "" || uuid.Validate(idOrName) == nil {
		return idOrName, nil
	}
	all, err := g.images().List(ctx)
	if err != nil {
		return "", err
	}
	return imageNamed(all, idOrName)
}

// imageNamed returns the id of the image with this id or name.
func imageNamed(all []image.Listed, name string) (string, error) {
	var ids, known []string
	for _, i := range all {
		if i.ID == name {
			return name, nil
		}
		if i.Name == name {
			ids = append(ids, i.ID)
		}
		known = append(known, i.Name)
	}
	switch len(ids) {
	case 0:
		return "", unknownName("image", name, known, "berth image list")
	case 1:
		return ids[0], nil
	}
	return "", severalNames("image", name, ids)
}

// knownHost returns fault.NotFound, with similar names, if no agent has reported for a host; nil for an empty name, and
// for callers who may not see hosts.
func knownHost(ctx context.Context, g *Globals, name string) error {
	if name == "" {
		return nil
	}
	_, err := g.report(ctx, name)
	if fault.Is(err, fault.Forbidden) {
		return nil
	}
	return err
}

// withSimilarNames adds to an error of Placement which classes and traits it knows that are similar to unknown ones of
// a query.
func withSimilarNames(ctx context.Context, g *Globals, query url.Values, err error) error {
	if !fault.Is(err, fault.Invalid) {
		return err
	}
	known, failed := readKnown(ctx, g)
	if failed != nil {
		return err
	}
	var hints []string
	hint := func(noun, name string, names map[string]bool) {
		if name != "" && !names[name] {
			hints = append(hints, fmt.Sprintf("Placement has no %s %s: %s", noun, name, fault.DidYouMean(name,
				sortedKeys(names), "`berth tree` shows those of all providers")))
		}
	}
	for _, key := range sortedKeys(query) {
		for _, value := range query[key] {
			switch {
			case strings.HasPrefix(key, "resources"):
				for amount := range strings.SplitSeq(value, ",") {
					class, _, _ := strings.Cut(amount, ":")
					hint("resource class", class, known.classes)
				}
			case strings.HasPrefix(key, "required") || key == "root_required":
				for trait := range strings.SplitSeq(strings.TrimPrefix(value, "in:"), ",") {
					hint("trait", strings.TrimPrefix(trait, "!"), known.traits)
				}
			}
		}
	}
	if len(hints) == 0 {
		return err
	}
	return fault.New(fault.Invalid, "%s; %s", strings.TrimSuffix(fault.TextOf(err), "."), strings.Join(hints, "; "))
}
