package novalink

import (
	"io"
	"net/http"
)

// entryOf puts an object into an Atom entry. The ETag is inside the entry too.
func entryOf(id, etag string, object *element) *element {
	parts := []*element{atom("id").text(id), atom("title").text(object.name.Local),
		atom("link").with("rel", "SELF").with("href", "http://other-name:12080/rest/api/uom/null"),
		atom("link").with("rel", "SELF").with("href", "http://other-name:12080/rest/api/uom/"+id)}
	if etag != "" {
		parts = append(parts, obj("etag").text(etag))
	}
	return atom("entry", append(parts, atom("content", object).with("type", "application/xml; type="+
		object.name.Local))...)
}

// feedOf puts entries into a feed. An empty feed is status 204 without a body.
func feedOf(etag string, entries []*element) reply {
	if len(entries) == 0 {
		return reply{status: http.StatusNoContent, etag: etag}
	}
	feed := atom("feed", atom("id").text("feed"))
	feed.add(entries...)
	return reply{status: http.StatusOK, etag: etag, body: feed}
}

// echo adds to an error entry what the real service repeats of a request. The session is among it, so that a test can
// check that no message of a client has it.
func (r reply) echo(request *http.Request) {
	if r.body == nil {
		return
	}
	if wrong := r.body.child("content", "HttpErrorResponse"); wrong != nil {
		wrong.add(web("RequestURI").text(request.URL.Path),
			web("RequestHeaders").text("X-API-Session: "+request.Header.Get("X-API-Session")))
	}
}

// readBody reads the XML of a request; nil without a body, or with one that is not XML.
func readBody(r *http.Request) (*element, error) {
	data, err := io.ReadAll(r.Body)
	if err != nil || len(data) == 0 {
		return nil, err
	}
	body, wrong := parse(data)
	if wrong != nil {
		body = nil // the handlers refuse a request without a body
	}
	return body, nil
}
