package novalink

import (
	"bytes"
	"encoding/xml"
	"errors"
	"io"
	"slices"
	"strings"
)

// Namespaces of the documents.
const (
	atomNamespace   = "http://www.w3.org/2005/Atom"
	objectNamespace = "http://www.ibm.com/xmlns/systems/power/firmware/uom/mc/2012_10/"
	webNamespace    = "http://www.ibm.com/xmlns/systems/power/firmware/web/mc/2012_10/"
)

// element is one XML element. The fake does not use the client's package, so that an error in it cannot hide on both
// sides.
type element struct {
	name     xml.Name
	attrs    []xml.Attr // without declarations of namespaces
	content  string     // of an element without children
	children []*element
}

func build(space, name string, children ...*element) *element {
	return &element{name: xml.Name{Space: space, Local: name}, children: children}
}

func atom(name string, children ...*element) *element { return build(atomNamespace, name, children...) }
func web(name string, children ...*element) *element  { return build(webNamespace, name, children...) }
func obj(name string, children ...*element) *element {
	return build(objectNamespace, name, children...)
}

// value returns an element with text and the attributes that the real service puts on every element.
func value(name, text string) *element {
	return obj(name).text(text).with("kb", "ROR").with("kxe", "false")
}

func (e *element) text(text string) *element {
	e.content = text
	return e
}

func (e *element) with(name, value string) *element {
	e.attrs = append(e.attrs, xml.Attr{Name: xml.Name{Local: name}, Value: value})
	return e
}

func (e *element) add(children ...*element) { e.children = append(e.children, children...) }

// child returns the first descendant along a path of local names, or nil.
func (e *element) child(path ...string) *element {
	for _, name := range path {
		i := slices.IndexFunc(e.children, func(c *element) bool { return c.name.Local == name })
		if i < 0 {
			return nil
		}
		e = e.children[i]
	}
	return e
}

// childText returns the trimmed text of a descendant, "" when there is none.
func (e *element) childText(path ...string) string {
	if c := e.child(path...); c != nil {
		return strings.TrimSpace(c.content)
	}
	return ""
}

// parse reads a document.
func parse(data []byte) (*element, error) {
	d := xml.NewDecoder(bytes.NewReader(data))
	document := &element{}
	stack := []*element{document}
	for {
		token, err := d.Token()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, err
		}
		top := stack[len(stack)-1]
		switch t := token.(type) {
		case xml.StartElement:
			e := &element{name: t.Name}
			for _, a := range t.Attr {
				if a.Name.Space != "xmlns" && a.Name.Local != "xmlns" {
					e.attrs = append(e.attrs, a)
				}
			}
			top.add(e)
			stack = append(stack, e)
		case xml.EndElement:
			stack = stack[:len(stack)-1]
		case xml.CharData:
			top.content += string(t)
		}
	}
	if len(document.children) != 1 {
		return nil, errors.New("the document has no root")
	}
	return document.children[0], nil
}

// document returns the element as a document in the form of the real service: the root of each object has a prefix
// equal to its name, and its children use the default namespace.
func (e *element) document() []byte {
	b := bytes.NewBufferString(`<?xml version="1.0" encoding="UTF-8" standalone="yes"?>` + "\n")
	e.write(b, "")
	return b.Bytes()
}

func (e *element) write(b *bytes.Buffer, space string) {
	name := e.name.Local
	if e.name.Space != space && e.name.Space != atomNamespace {
		name += ":" + name
	}
	b.WriteString("<" + name)
	attrs := e.attrs
	if e.name.Space != space {
		attrs = append([]xml.Attr{{Name: xml.Name{Local: "xmlns"}, Value: e.name.Space}}, attrs...)
		if name != e.name.Local {
			attrs = append([]xml.Attr{{Name: xml.Name{Local: "xmlns:" + e.name.Local}, Value: e.name.Space}}, attrs...)
		}
	}
	for _, a := range attrs {
		b.WriteString(" " + a.Name.Local + `="`)
		_ = xml.EscapeText(b, []byte(a.Value)) // a buffer accepts everything
		b.WriteByte('"')
	}
	b.WriteByte('>')
	for _, c := range e.children {
		c.write(b, e.name.Space)
	}
	if len(e.children) == 0 {
		_ = xml.EscapeText(b, []byte(e.content))
	}
	b.WriteString("</" + name + ">")
}
