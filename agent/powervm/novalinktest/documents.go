package novalinktest

import (
	"bytes"
	"encoding/xml"
	"io"
	"net/http"

	"github.com/openberth/berth/agent/powervm/uom"
)

const atomNamespace = "http://www.w3.org/2005/Atom"

// node builds elements.
type node uom.Element

func build(space, name string, children ...*node) *node {
	n := &node{Name: xml.Name{Space: space, Local: name}}
	for _, c := range children {
		n.Children = append(n.Children, c.element())
	}
	return n
}

func web(name string, children ...*node) *node  { return build(uom.WebNamespace, name, children...) }
func atom(name string, children ...*node) *node { return build(atomNamespace, name, children...) }

func (n *node) text(text string) *node {
	n.Text = text
	return n
}

func (n *node) with(name, value string) *node {
	n.Attrs = append(n.Attrs, xml.Attr{Name: xml.Name{Local: name}, Value: value})
	return n
}

func (n *node) element() *uom.Element { return (*uom.Element)(n) }

// entryOf puts an object into an Atom entry. The ETag is inside the entry too.
func entryOf(id, etag string, object *node) *uom.Element {
	parts := []*node{atom("id").text(id), atom("title").text(object.Name.Local),
		atom("link").with("rel", "SELF").with("href", "http://other-name:12080/rest/api/uom/null"),
		atom("link").with("rel", "SELF").with("href", "http://other-name:12080/rest/api/uom/"+id)}
	if etag != "" {
		parts = append(parts, build(uom.Namespace, "etag").text(etag))
	}
	return atom("entry", append(parts, atom("content", object).with("type", "application/xml; type="+
		object.Name.Local))...).element()
}

// feedOf puts entries into a feed. An empty feed is status 204 without a body.
func feedOf(etag string, entries []*uom.Element) reply {
	if len(entries) == 0 {
		return reply{status: http.StatusNoContent, etag: etag}
	}
	feed := atom("feed", atom("id").text("feed"))
	feed.Children = append(feed.Children, entries...)
	return reply{status: http.StatusOK, etag: etag, body: feed.element()}
}

// document writes a document the way the real service does: the root of each object has a prefix equal to its name, and
// its children use the default namespace.
func document(root *uom.Element) []byte {
	text := append([]byte(`<?xml version="1.0" encoding="UTF-8" standalone="yes"?>`+"\n"), root.Bytes()...)
	for _, name := range []string{"ManagedSystem", "LogicalPartition", "JobResponse", "JobRequest", "HttpErrorResponse"} {
		for _, space := range []string{uom.Namespace, uom.WebNamespace} {
			text = bytes.ReplaceAll(text, []byte("<"+name+` xmlns="`+space+`"`),
				[]byte("<"+name+":"+name+" xmlns:"+name+`="`+space+`" xmlns="`+space+`"`))
		}
		if bytes.Contains(text, []byte("<"+name+":")) {
			text = bytes.ReplaceAll(text, []byte("</"+name+">"), []byte("</"+name+":"+name+">"))
		}
	}
	return text
}

// readBody reads the XML of a request; nil without a body, or with one that is not XML.
func readBody(r *http.Request) (*uom.Element, error) {
	data, err := io.ReadAll(r.Body)
	if err != nil || len(data) == 0 {
		return nil, err
	}
	element, wrong := uom.ParseElement(data)
	if wrong != nil {
		element = nil // the handlers refuse a request without a body
	}
	return element, nil
}
