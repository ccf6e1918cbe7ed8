package domainxml

import (
	"encoding/xml"
	"errors"
	"io"
	"slices"
	"strings"
)

// node is an element of an XML document, or a text. Names keep their prefixes. Unlike libvirtxml a tree keeps what
// it does not know.
type node struct {
	name     string // empty: a text
	attrs    []xml.Attr
	children []*node
	text     string
}

// parseTree returns the root element of a document.
func parseTree(text string) (*node, error) {
	in := xml.NewDecoder(strings.NewReader(text))
	root := &node{}
	open := []*node{root}
	for {
		token, err := in.RawToken()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, err
		}
		last := open[len(open)-1]
		switch token := token.(type) {
		case xml.StartElement:
			n := &node{name: rawName(token.Name), attrs: slices.Clone(token.Attr)}
			last.children = append(last.children, n)
			open = append(open, n)
		case xml.EndElement:
			if len(open) == 1 || last.name != rawName(token.Name) {
				return nil, errors.New("an element ends that is not open")
			}
			open = open[:len(open)-1]
		case xml.CharData:
			last.children = append(last.children, &node{text: string(token)})
		}
	}
	i := slices.IndexFunc(root.children, func(n *node) bool { return n.name != "" })
	if len(open) != 1 || i < 0 {
		return nil, errors.New("the document is not complete")
	}
	return root.children[i], nil
}

// rawName returns a name with its prefix.
func rawName(name xml.Name) string {
	if name.Space != "" {
		return name.Space + ":" + name.Local
	}
	return name.Local
}

// String returns the XML of an element.
func (n *node) String() string {
	var out strings.Builder
	n.write(&out)
	return out.String()
}

func (n *node) write(out *strings.Builder) {
	escape := func(text string) { _ = xml.EscapeText(out, []byte(text)) } // a Builder returns no error
	if n.name == "" {
		escape(n.text)
		return
	}
	out.WriteString("<" + n.name)
	for _, a := range n.attrs {
		out.WriteString(" " + rawName(a.Name) + `="`)
		escape(a.Value)
		out.WriteString(`"`)
	}
	out.WriteString(">")
	for _, child := range n.children {
		child.write(out)
	}
	out.WriteString("</" + n.name + ">")
}

// attr returns the value of an attribute, or an empty text.
func (n *node) attr(name string) string {
	for _, a := range n.attrs {
		if rawName(a.Name) == name {
			return a.Value
		}
	}
	return ""
}

// setAttr sets an attribute.
func (n *node) setAttr(name, value string) {
	for i, a := range n.attrs {
		if rawName(a.Name) == name {
			n.attrs[i].Value = value
			return
		}
	}
	n.attrs = append(n.attrs, xml.Attr{Name: xml.Name{Local: name}, Value: value})
}

// all returns the descendants on a path of names, in their order.
func (n *node) all(path ...string) []*node {
	found := []*node{n}
	for _, name := range path {
		var next []*node
		for _, parent := range found {
			for _, child := range parent.children {
				if child.name == name {
					next = append(next, child)
				}
			}
		}
		found = next
	}
	return found
}

// first returns the first descendant on a path, or an empty element.
func (n *node) first(path ...string) *node {
	if found := n.all(path...); len(found) > 0 {
		return found[0]
	}
	return &node{}
}

// replace removes the children with one of these names, and appends those of another element.
func (n *node) replace(from *node, names ...string) {
	n.remove(names...)
	for _, name := range names {
		n.children = append(n.children, from.all(name)...)
	}
}

// remove removes the children with one of these names.
func (n *node) remove(names ...string) {
	n.children = slices.DeleteFunc(n.children, func(c *node) bool { return slices.Contains(names, c.name) })
}
