package server

import (
	"strings"
	"testing"
)

// A text that not every database can store is answered with 400 and its place.
func TestTextsThatAreNotAccepted(t *testing.T) {
	f := start(t)
	for path, body := range map[string]string{
		"/v2.0/networks":     `{"network": {"name": "a\u0000"}}`,
		"/v2.0/qos/policies": `{"policy": {"name": "p", "description": "\ud83d"}}`,
	} {
		status, answer := f.do("admin", "POST", path, body)
		text, _ := answer["NeutronError"].(map[string]any)["message"].(string)
		if status != 400 || !strings.Contains(text, "Invalid text in ") {
			t.Errorf("%s: %d %v", path, status, answer)
		}
	}
	if status, answer := f.do("admin", "GET", "/v2.0/networks?name=%00", ""); status != 400 {
		t.Errorf("%d %v", status, answer)
	}
}
