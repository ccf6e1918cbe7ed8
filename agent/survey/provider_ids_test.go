package survey

import (
	"testing"
)

func TestProviderIDIsVersion5(t *testing.T) {
	if got := ProviderID(root, "python.org"); got != "886313e1-3b8a-5372-9b90-0c9aee199e5d" {
		t.Error(got)
	}
	if ProviderID("a", "n") == ProviderID("b", "n") || ProviderID(root, "a") == ProviderID(root, "b") {
		t.Error("two providers have one ID")
	}
}
