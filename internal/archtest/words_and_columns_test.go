package archtest

import (
	"fmt"
	"go/scanner"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"unicode/utf8"
)

// maxColumns is the maximum length of a line in characters; a tab counts as one.
const maxColumns = 120

// bannedWords match words in comments and strings for which plain technical English has a better one.
var bannedWords = regexp.MustCompile(
	`(?i)\b(shall|anew|nobody|somebody|anybody|whoever|whom|mend(s|ed|ing)?|for ever|` +
		`but for|so many|is no|is none|(is|are) told|told of|ought|hears?|heard|tells?|lies|stands|wishes)\b`)

// allowedPhrases contain a banned word, but are plain English, or the name of a field in stored records of version 1.
var allowedPhrases = regexp.MustCompile(`(?i)\b(is no longer|there is no|there is none)\b|\bv1:"Heard"`)

// checkedDirs are the directories whose Go files have no banned words. Add a directory when its files have none.
var checkedDirs = []string{
	"agent",
	"agent/cleaner",
	"agent/device",
	"agent/facts",
	"agent/hypervisor",
	"agent/hypervisor/fake",
	"agent/hypervisor/hypervisortest",
	"agent/journal",
	"agent/loop",
	"agent/reconcile",
	"agent/survey",
	"agent/sysfs",
	"agent/treeplan",
	"agent/uevent",
	"api/compute",
	"api/cors",
	"api/host",
	"api/identity",
	"api/image",
	"api/placement",
	"api/placement/placementtest",
	"api/rest",
	"backoff",
	"cli",
	"cli/demo",
	"cmd/berth",
	"compute",
	"compute/conductor",
	"compute/flavor",
	"compute/lifecycle",
	"compute/runner",
	"compute/schedule",
	"compute/server",
	"compute/store",
	"config",
	"conformance",
	"datafile",
	"fault",
	"internal/app",
	"internal/archtest",
	"internal/bench",
	"internal/clienttest",
	"internal/coexist",
	"internal/databases",
	"internal/glance",
	"internal/httpserver",
	"internal/keystone",
	"internal/lab",
	"internal/settings",
	"internal/sim",
	"internal/stress",
	"internal/testenv",
	"internal/testsummary",
	"numa",
	"pci",
	"placement",
	"placement/candidate",
	"placement/candidate/candidatetest",
	"placement/explain",
	"placement/index",
	"placement/match",
	"placement/metrics",
	"placement/policies",
	"placement/server",
	"placement/store",
	"policy",
	"provider",
	"resource",
	"sqldb",
}

// TestColumns fails for long lines in any Go file.
func TestColumns(t *testing.T) {
	files := 0
	err := filepath.WalkDir(filepath.Join("..", ".."), func(path string, d fs.DirEntry, err error) error {
		if err != nil || filepath.Ext(path) != ".go" {
			return err
		}
		files++
		_, long := languageProblems(t, path)
		for _, problem := range long {
			t.Errorf("%s:%s", path, problem)
		}
		return nil
	})
	if err != nil || files < 400 {
		t.Errorf("%d files: %v", files, err)
	}
}

// TestMarkdown fails for long lines and banned words in Markdown. Rows of tables cannot be wrapped; code is quoted.
func TestMarkdown(t *testing.T) {
	files := 0
	err := filepath.WalkDir(filepath.Join("..", ".."), func(path string, d fs.DirEntry, err error) error {
		if err != nil || filepath.Ext(path) != ".md" || strings.Contains(path, "node_modules") {
			return err
		}
		files++
		text, err := os.ReadFile(path)
		number, code := 0, false
		for line := range strings.Lines(string(text)) {
			number++
			if strings.HasPrefix(line, "```") {
				code = !code
			}
			if code || strings.HasPrefix(line, "|") || strings.HasPrefix(line, "    ") {
				continue
			}
			if n := utf8.RuneCountInString(strings.TrimSuffix(line, "\n")); n > maxColumns {
				t.Errorf("%s:%d: %d columns, more than %d", path, number, n, maxColumns)
			}
			if word := bannedWords.FindString(allowedPhrases.ReplaceAllString(line, "")); word != "" {
				t.Errorf("%s:%d: banned word %q", path, number, word)
			}
		}
		return err
	})
	if err != nil || files < 15 {
		t.Errorf("%d files: %v", files, err)
	}
}

// TestWords fails for banned words in checkedDirs.
func TestWords(t *testing.T) {
	for _, dir := range checkedDirs {
		files, err := filepath.Glob(filepath.Join("..", "..", dir, "*.go"))
		if err != nil || len(files) == 0 {
			t.Errorf("%s has no Go files (%v): remove it from checkedDirs", dir, err)
		}
		for _, path := range files {
			words, _ := languageProblems(t, path)
			for _, problem := range words {
				t.Errorf("%s/%s:%s", dir, filepath.Base(path), problem)
			}
		}
	}
}

// languageProblems returns the banned words and the long lines of a file, each with its line number. Long lines with a
// raw string are allowed, because struct tags and quoted text cannot be wrapped. This file lists the banned words, so
// only its lines are checked.
func languageProblems(t *testing.T, path string) (words, long []string) {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	fset := token.NewFileSet()
	file := fset.AddFile(path, -1, len(text))
	raw := map[int]bool{}
	var s scanner.Scanner
	s.Init(file, text, nil, scanner.ScanComments)
	for {
		pos, kind, literal := s.Scan()
		if kind == token.EOF {
			break
		}
		if kind != token.STRING && kind != token.COMMENT {
			continue
		}
		at := fset.Position(pos)
		if strings.HasPrefix(literal, "`") {
			for i := range strings.Count(literal, "\n") + 1 {
				raw[at.Line+i] = true
			}
		}
		if filepath.Base(path) == "words_and_columns_test.go" {
			continue
		}
		if word := bannedWords.FindString(allowedPhrases.ReplaceAllString(literal, "")); word != "" {
			words = append(words, fmt.Sprintf("%d: banned word %q", at.Line, word))
		}
	}
	line := 0
	for l := range strings.Lines(string(text)) {
		line++
		if n := utf8.RuneCountInString(strings.TrimSuffix(l, "\n")); n > maxColumns && !raw[line] {
			long = append(long, fmt.Sprintf("%d: %d columns, more than %d", line, n, maxColumns))
		}
	}
	return words, long
}
