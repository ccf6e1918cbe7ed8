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
	"unicode"
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

// shellLine matches the first line of a shell file.
var shellLine = regexp.MustCompile(`^#!.*\b(ba|da)?sh\b`)

// TestWordsAndColumns fails for long lines and banned words in any Go file.
func TestWordsAndColumns(t *testing.T) {
	files := 0
	err := filepath.WalkDir(filepath.Join("..", ".."), func(path string, d fs.DirEntry, err error) error {
		if err != nil || filepath.Ext(path) != ".go" {
			return err
		}
		files++
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		problems := problemsOf(path, text)
		for _, problem := range append(problems.words, problems.long...) {
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
			if word := bannedWord(line); word != "" {
				t.Errorf("%s:%d: banned word %q", path, number, word)
			}
		}
		return err
	})
	if err != nil || files < 15 {
		t.Errorf("%d files: %v", files, err)
	}
}

// maxLines is the length of a document that is read as a whole.
const maxLines = 500

// TestDocuments fails for links in Markdown that lead nowhere, and for documents that are too long.
func TestDocuments(t *testing.T) {
	link := regexp.MustCompile(`\]\(([^)#:\s]*)(#[^)\s]*)?\)`)
	heading := regexp.MustCompile(`(?m)^#{1,6} (.*)$`)
	anchors := func(path string) map[string]bool {
		text, err := os.ReadFile(path)
		if err != nil {
			return nil
		}
		all := map[string]bool{}
		for _, m := range heading.FindAllStringSubmatch(string(text), -1) {
			all["#"+anchorOf(m[1])] = true
		}
		return all
	}
	links := 0
	err := filepath.WalkDir(filepath.Join("..", ".."), func(path string, _ fs.DirEntry, err error) error {
		if err != nil || filepath.Ext(path) != ".md" || strings.Contains(path, "node_modules") {
			return err
		}
		text, err := os.ReadFile(path)
		if n := strings.Count(string(text), "\n"); n > maxLines && strings.Contains(path, "/docs/") {
			t.Errorf("%s has %d lines, more than %d", path, n, maxLines)
		}
		for _, m := range link.FindAllStringSubmatch(string(text), -1) {
			links++
			to := path
			if m[1] != "" {
				to = filepath.Join(filepath.Dir(path), m[1])
			}
			if _, err := os.Stat(to); err != nil || m[2] != "" && !anchors(to)[m[2]] {
				t.Errorf("%s: the link %s%s leads nowhere", path, m[1], m[2])
			}
		}
		return err
	})
	if err != nil || links < 50 {
		t.Errorf("%d links: %v", links, err)
	}
}

// anchorOf returns the anchor of a heading: its letters, digits, hyphens and underscores, with hyphens for spaces.
func anchorOf(heading string) string {
	return strings.ReplaceAll(strings.Map(func(r rune) rune {
		if unicode.IsLetter(r) || unicode.IsDigit(r) || strings.ContainsRune(" -_", r) {
			return unicode.ToLower(r)
		}
		return -1
	}, heading), " ", "-")
}

// TestShellColumns fails for long lines in the shell files that are not test data.
func TestShellColumns(t *testing.T) {
	files := 0
	err := filepath.WalkDir(filepath.Join("..", ".."), func(path string, d fs.DirEntry, err error) error {
		if err == nil && d.IsDir() && (d.Name() == ".git" || d.Name() == "testdata" || d.Name() == "node_modules") {
			return filepath.SkipDir
		}
		if err != nil || !d.Type().IsRegular() {
			return err
		}
		script, err := os.ReadFile(path)
		if first, _, _ := strings.Cut(string(script), "\n"); err != nil || !shellLine.MatchString(first) {
			return err
		}
		files++
		number := 0
		for line := range strings.Lines(string(script)) {
			number++
			if n := utf8.RuneCountInString(strings.TrimSuffix(line, "\n")); n > maxColumns {
				t.Errorf("%s:%d: %d columns, more than %d", path, number, n, maxColumns)
			}
		}
		return nil
	})
	if err != nil || files < 5 {
		t.Errorf("%d shell files: %v", files, err)
	}
}

// fileProblems are the banned words and the long lines of a file, each with its line number.
type fileProblems struct{ words, long []string }

// structTag matches the literal of a struct tag.
var structTag = regexp.MustCompile("^`\\w+:\".*\"`$")

// problemsOf checks the text of a file. A long line is allowed if it ends with a struct tag, or has a part of a raw
// string of several lines: they cannot be wrapped. A comment behind a tag can stand above the field, and other strings
// can be concatenated. This file lists the banned words, so only its lines are checked.
func problemsOf(path string, text []byte) (p fileProblems) {
	fset := token.NewFileSet()
	file := fset.AddFile(path, -1, len(text))
	fixed := map[int]bool{} // lines that cannot be wrapped
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
		switch breaks := strings.Count(literal, "\n"); {
		case !strings.HasPrefix(literal, "`"):
		case breaks > 0:
			for i := range breaks + 1 {
				fixed[at.Line+i] = true
			}
		case structTag.MatchString(literal):
			rest, _, _ := strings.Cut(string(text[at.Offset+len(literal):]), "\n")
			fixed[at.Line] = rest == ""
		}
		if filepath.Base(path) == "words_and_columns_test.go" {
			continue
		}
		if word := bannedWord(literal); word != "" {
			p.words = append(p.words, fmt.Sprintf("%d: banned word %q", at.Line, word))
		}
	}
	line := 0
	for l := range strings.Lines(string(text)) {
		line++
		if n := utf8.RuneCountInString(strings.TrimSuffix(l, "\n")); n > maxColumns && !fixed[line] {
			p.long = append(p.long, fmt.Sprintf("%d: %d columns, more than %d", line, n, maxColumns))
		}
	}
	return p
}

// TestProblemsOf checks which long lines are reported.
func TestProblemsOf(t *testing.T) {
	long := strings.Repeat("x", maxColumns)
	for source, want := range map[string]int{
		"var a = \"" + long + "\"":                                           1,
		"var a = `" + long + "`":                                             1,
		"var a = `" + long + "\n" + long + "\n" + long + "`":                 0,
		"type t struct {\na int `help:\"" + long + "\"`\n}":                  0,
		"type t struct {\na int `json:\"a\"` // " + long + "\n}":             1,
		"type t struct {\na int `help:\"" + long + "\"` // further words\n}": 1,
	} {
		if p := problemsOf("a.go", []byte("package a\n"+source+"\n")); len(p.long) != want {
			t.Errorf("%v in\n%s", p.long, source)
		}
	}
}

// bannedWord returns the first banned word of a text outside of allowed phrases, or an empty string.
func bannedWord(text string) string {
	if !bannedWords.MatchString(text) { // nearly always, and one search is faster than two
		return ""
	}
	return bannedWords.FindString(allowedPhrases.ReplaceAllString(text, ""))
}
