package cli

import (
	"strings"
	"testing"
)

func TestTableOutput(t *testing.T) {
	var b strings.Builder
	err := PrintTable(&b, false, []string{"Name", "State"}, [][]string{{"a", "available"}, {"longer\x1b[2J", "-"}})
	if err != nil {
		t.Fatal(err)
	}
	want := "NAME           STATE\na              available\nlonger\\x1b[2J  -\n"
	if b.String() != want {
		t.Errorf("got\n%q\nwant\n%q", b.String(), want)
	}
}
