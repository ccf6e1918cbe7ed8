package uom

import (
	"encoding/xml"
	"fmt"
	"strings"
)

// Entry is one object with what Atom adds to it.
type Entry[T any] struct {
	ID     string // UUID of the object
	ETag   string // as in the entry, unquoted; "" when the server puts it only into the header
	Object T
}

// wireEntry is an entry as it is decoded.
type wireEntry[T any] struct {
	ID      string     `xml:"id"`
	ETag    string     `xml:"etag"`
	Content content[T] `xml:"content"`
}

// content is the content of an entry: one object.
type content[T any] struct {
	Objects []named[T] `xml:",any"`
}

// document is a feed, with entries, or an entry, with content.
type document[T any] struct {
	XMLName xml.Name
	ID      string         `xml:"id"`
	ETag    string         `xml:"etag"`
	Content content[T]     `xml:"content"`
	Entries []wireEntry[T] `xml:"entry"`
}

// named is an object with the name of its element.
type named[T any] struct {
	name   xml.Name
	object T
}

// UnmarshalXML keeps the name of the element.
func (n *named[T]) UnmarshalXML(d *xml.Decoder, start xml.StartElement) error {
	n.name = start.Name
	return d.DecodeElement(&n.object, &start)
}

// Feed decodes a collection: an Atom feed, or one entry. want is the local name of the objects, such as ManagedSystem;
// another one is an error. Empty data is an empty collection, which the server answers with status 204.
func Feed[T any](data []byte, want string) ([]Entry[T], error) {
	if len(data) == 0 {
		return nil, nil
	}
	var doc document[T]
	if err := xml.Unmarshal(data, &doc); err != nil {
		return nil, fmt.Errorf("not well-formed XML: %w", err)
	}
	wires := doc.Entries
	switch doc.XMLName.Local {
	case "feed":
	case "entry":
		wires = []wireEntry[T]{{ID: doc.ID, ETag: doc.ETag, Content: doc.Content}}
	default:
		return nil, fmt.Errorf("the document is <%s>, not an Atom feed or entry", doc.XMLName.Local)
	}
	entries := make([]Entry[T], 0, len(wires))
	for _, w := range wires {
		if n := len(w.Content.Objects); n != 1 {
			return nil, fmt.Errorf("an entry has %d objects, not one", n)
		}
		object := w.Content.Objects[0]
		if object.name.Local != want {
			return nil, fmt.Errorf("an entry has a %s, not a %s", object.name.Local, want)
		}
		entry := Entry[T]{ID: strings.TrimSpace(w.ID), ETag: strings.TrimSpace(w.ETag), Object: object.object}
		entries = append(entries, entry)
	}
	return entries, nil
}

// One decodes an instance: a document with exactly one entry.
func One[T any](data []byte, want string) (Entry[T], error) {
	entries, err := Feed[T](data, want)
	if err != nil {
		return Entry[T]{}, err
	}
	if len(entries) != 1 {
		return Entry[T]{}, fmt.Errorf("the document has %d entries, not one", len(entries))
	}
	return entries[0], nil
}

// Systems decodes managed systems. The UUID of a system without AtomID is that of its entry.
func Systems(data []byte) ([]Entry[ManagedSystem], error) {
	entries, err := Feed[ManagedSystem](data, "ManagedSystem")
	for i := range entries {
		if strings.TrimSpace(entries[i].Object.UUID) == "" {
			entries[i].Object.UUID = entries[i].ID
		}
	}
	return entries, err
}

// Bare decodes an object that is not in an Atom document, such as the answer to a logon.
func Bare[T any](data []byte, want string) (object T, err error) {
	var n named[T]
	if err := xml.Unmarshal(data, &n); err != nil {
		return object, fmt.Errorf("not well-formed XML: %w", err)
	}
	if n.name.Local != want {
		return object, fmt.Errorf("the document is a %s, not a %s", n.name.Local, want)
	}
	return n.object, nil
}
