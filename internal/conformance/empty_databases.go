package conformance

import (
	"errors"
	"fmt"
	"strings"
)

// Reset deletes all allocations, providers, custom classes and custom traits of both servers: Berth's through the API,
// the original's in its database, because the original is slow and keeps nothing in memory between requests.
func (p *Pair) Reset() error {
	var failed [2]error
	if err := p.Original.execute(emptyStatements); err != nil {
		failed[0] = fmt.Errorf("emptying the database of %s: %w", p.Original.Name, err)
	}
	if err := p.Berth.deleteAll(); err != nil {
		failed[1] = fmt.Errorf("deleting all data of %s: %w", p.Berth.Name, err)
	}
	return errors.Join(failed[:]...)
}

// deleteAll deletes all data of a server through the API, and the owners of consumers, which have no API.
func (s *Server) deleteAll() error {
	doc, _, err := s.admin("GET", "/resource_providers")
	if err != nil {
		return err
	}
	left := texts(doc, "resource_providers", "uuid")
	for _, id := range left {
		doc, _, err := s.admin("GET", "/resource_providers/"+id+"/allocations")
		if err != nil {
			return err
		}
		consumers, _ := doc["allocations"].(map[string]any)
		for consumer := range consumers {
			if _, _, err := s.admin("DELETE", "/allocations/"+consumer); err != nil {
				return err
			}
		}
	}
	// A provider with children cannot be deleted, so each round deletes the leaves. The newest come first, because they
	// are mostly leaves.
	for len(left) > 0 {
		var remaining []string
		for i := len(left) - 1; i >= 0; i-- {
			_, answer, err := s.admin("DELETE", "/resource_providers/"+left[i])
			if err != nil {
				return err
			}
			if answer.Status != 204 {
				remaining = append(remaining, left[i])
			}
		}
		if len(remaining) == len(left) {
			return fmt.Errorf("%d providers cannot be deleted", len(remaining))
		}
		left = remaining
	}
	if err := s.execute(ownerStatements); err != nil {
		return err
	}
	return s.deleteCustomNames()
}

// deleteCustomNames deletes custom classes and traits.
func (s *Server) deleteCustomNames() error {
	doc, _, err := s.admin("GET", "/resource_classes")
	if err != nil {
		return err
	}
	targets := []string{}
	for _, name := range texts(doc, "resource_classes", "name") {
		if strings.HasPrefix(name, "CUSTOM_") {
			targets = append(targets, "/resource_classes/"+name)
		}
	}
	if doc, _, err = s.admin("GET", "/traits?name=startswith:CUSTOM_"); err != nil {
		return err
	}
	for _, name := range texts(doc, "traits", "") {
		targets = append(targets, "/traits/"+name)
	}
	for _, target := range targets {
		if _, answer, err := s.admin("DELETE", target); err != nil || answer.Status != 204 {
			return fmt.Errorf("DELETE %s: %d %s (%v)", target, answer.Status, answer.Body, err)
		}
	}
	return nil
}

// texts returns a list of texts, or of the texts under key in a list of objects.
func texts(doc map[string]any, list, key string) (out []string) {
	items, _ := doc[list].([]any)
	for _, item := range items {
		if m, ok := item.(map[string]any); ok {
			item = m[key]
		}
		out = append(out, fmt.Sprint(item))
	}
	return out
}
