package consoles

import (
	"fmt"
	"testing"
	"time"

	"github.com/openberth/berth/fault"
)

// TestTokens checks that a token is used once, and not after its time.
func TestTokens(t *testing.T) {
	var tokens Tokens
	now := time.Unix(1000, 0)
	issue := func() string {
		t.Helper()
		id, err := tokens.issue(token{"s", "p", serial, now.Add(time.Minute)}, now)
		if err != nil {
			t.Error(err)
		}
		return id
	}
	id, other := issue(), issue()
	if id == other {
		t.Error("two tokens are the same")
	}
	for _, use := range []bool{false, true} {
		if got, ok := tokens.find(id, use, now); !ok || got.server != "s" || got.kind != serial {
			t.Errorf("use %v: %+v %v", use, got, ok)
		}
	}
	if _, ok := tokens.find(id, true, now); ok {
		t.Error("a token is used twice")
	}
	if _, ok := tokens.find(other, true, now.Add(time.Minute)); ok {
		t.Error("an expired token is used")
	}
	now = now.Add(time.Hour)
	if issue(); len(tokens.all) != 1 {
		t.Errorf("%d tokens are kept", len(tokens.all))
	}
}

// TestMostTokens checks how many tokens a server and a project may have.
func TestMostTokens(t *testing.T) {
	var tokens Tokens
	now := time.Unix(1000, 0)
	issue := func(server, project string) error {
		_, err := tokens.issue(token{server, project, serial, now.Add(time.Minute)}, now)
		return err
	}
	issued := 0
	for n := range maxProjectTokens + 1 {
		if err := issue(fmt.Sprint("s", n/maxServerTokens), "p"); err == nil {
			issued++
		} else if !fault.Is(err, fault.Forbidden) {
			t.Fatal(err)
		}
	}
	if issued != maxProjectTokens || len(tokens.all) != maxProjectTokens {
		t.Errorf("%d issued, %d kept", issued, len(tokens.all))
	}
	for n := range maxServerTokens + 1 {
		if err := issue("t", "q"); (err == nil) != (n < maxServerTokens) {
			t.Errorf("token %d of a server: %v", n, err)
		}
	}
	if now = now.Add(time.Minute); issue("t", "q") != nil || issue("s0", "p") != nil {
		t.Error("expired tokens count")
	}
}
