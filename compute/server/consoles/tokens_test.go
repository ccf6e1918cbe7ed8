package consoles

import (
	"testing"
	"time"
)

// TestTokens checks that a token is used once, and not after its time.
func TestTokens(t *testing.T) {
	var tokens Tokens
	now := time.Unix(1000, 0)
	issue := func() string { return tokens.issue(token{"s", serial, now.Add(time.Minute)}, now) }
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
