package cli

import (
	"strings"
	"testing"
)

func TestTableOutput(t *testing.T) {
	var b strings.Builder
	if err := PrintTable(&b, []string{"Name", "State"}, [][]string{{"a", "available"}, {"longer\x1b[2J", "-"}}); err !=
		nil {
		t.Fatal(err)
	}
	want := "NAME           STATE\na              available\nlonger\\x1b[2J  -\n"
	if b.String() != want {
		t.Errorf("got\n%q\nwant\n%q", b.String(), want)
	}
}
