package server

import "testing"

// A text that not every database can store is refused, as in the other services.
func TestTextsThatAreNotAccepted(t *testing.T) {
	f := start(t)
	f.want(400, "ann:p1", "POST", "/v2/images", `{"name": "a\u0000"}`, "Content-Type", "application/json")
	f.want(400, "ann:p1", "POST", "/v2/images", `{"name": "a", "os_distro": "\ufffe"}`, "Content-Type", "application/json")
	f.want(400, "ann:p1", "GET", "/v2/images?name=%00", "")
}
