package uom

import (
	"bytes"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
)

// Element is one XML element with all that it contains. An update sends a whole object back, so it must keep the
// elements that this program does not interpret.
type Element struct {
	Name     xml.Name
	Attrs    []xml.Attr // without declarations of namespaces
	Text     string     // of an element without children
	Children []*Element
}

// maxDepth is the largest depth of a document.
const maxDepth = 100

// NewElement returns an element of the UOM namespace.
func NewElement(name string, children ...*Element) *Element {
	return &Element{Name: xml.Name{Space: Namespace, Local: name}, Children: children}
}

// NewText returns an element of the UOM namespace with text.
func NewText(name, text string) *Element {
	e := NewElement(name)
	e.Text = text
	return e
}

// With returns the element with an attribute.
func (e *Element) With(name, value string) *Element {
	e.Attrs = append(e.Attrs, xml.Attr{Name: xml.Name{Local: name}, Value: value})
	return e
}

// ParseElement reads a document.
func ParseElement(data []byte) (*Element, error) {
	d := xml.NewDecoder(bytes.NewReader(data))
	var stack []*Element
	var root *Element
	for {
		token, err := d.Token()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, fmt.Errorf("not well-formed XML: %w", err)
		}
		switch t := token.(type) {
		case xml.StartElement:
			e := &Element{Name: t.Name, Attrs: plainAttrs(t.Attr)}
			switch {
			case len(stack) >= maxDepth:
				return nil, fmt.Errorf("the document is deeper than %d elements", maxDepth)
			case len(stack) > 0:
				parent := stack[len(stack)-1]
				parent.Children = append(parent.Children, e)
			case root != nil:
				return nil, errors.New("the document has two roots")
			default:
				root = e
			}
			stack = append(stack, e)
		case xml.EndElement:
			stack = stack[:len(stack)-1]
		case xml.CharData:
			if len(stack) > 0 {
				stack[len(stack)-1].Text += string(t)
			}
		}
	}
	if root == nil {
		return nil, errors.New("the document is empty")
	}
	return root, nil
}

// plainAttrs drops declarations of namespaces, which Bytes writes again.
func plainAttrs(attrs []xml.Attr) []xml.Attr {
	return slices.DeleteFunc(slices.Clone(attrs), func(a xml.Attr) bool {
		return a.Name.Space == "xmlns" || a.Name.Local == "xmlns"
	})
}

// Bytes returns the element as a document, with the namespaces as default namespaces.
func (e *Element) Bytes() []byte {
	var b bytes.Buffer
	e.write(&b, "")
	return b.Bytes()
}

func (e *Element) write(b *bytes.Buffer, space string) {
	b.WriteString("<" + e.Name.Local)
	if e.Name.Space != space {
		writeAttr(b, "xmlns", e.Name.Space)
	}
	for _, a := range e.Attrs {
		writeAttr(b, a.Name.Local, a.Value)
	}
	b.WriteByte('>')
	for _, c := range e.Children {
		c.write(b, e.Name.Space)
	}
	if len(e.Children) == 0 {
		_ = xml.EscapeText(b, []byte(e.Text)) // a buffer accepts everything
	}
	b.WriteString("</" + e.Name.Local + ">")
}

func writeAttr(b *bytes.Buffer, name, value string) {
	b.WriteString(" " + name + `="`)
	_ = xml.EscapeText(b, []byte(value))
	b.WriteByte('"')
}

// Child returns the first descendant along a path of local names, or nil.
func (e *Element) Child(path ...string) *Element {
	for _, name := range path {
		if e == nil {
			return nil
		}
		i := slices.IndexFunc(e.Children, func(c *Element) bool { return c.Name.Local == name })
		if i < 0 {
			return nil
		}
		e = e.Children[i]
	}
	return e
}

// ChildText returns the trimmed text of a descendant, "" when there is none.
func (e *Element) ChildText(path ...string) string {
	if c := e.Child(path...); c != nil {
		return strings.TrimSpace(c.Text)
	}
	return ""
}

// ContentOf returns the object in an Atom entry.
func ContentOf(entry *Element) (*Element, error) {
	content := entry.Child("content")
	if entry.Name.Local != "entry" || content == nil || len(content.Children) != 1 {
		return nil, fmt.Errorf("the document is <%s>, not an Atom entry with one object", entry.Name.Local)
	}
	return content.Children[0], nil
}
