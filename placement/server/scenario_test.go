package server

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/uuid"

	api "github.com/openberth/berth/api/placement"
)

var update = flag.Bool("update", false, "rewrite testdata/*.scenario with the actual answers")

var variable = regexp.MustCompile(`\$[a-z][a-z0-9]*`)

// expand replaces $names by UUIDs. The same name has the same UUID in all scenarios.
func expand(text string, names map[string]string) string {
	return variable.ReplaceAllStringFunc(text, func(name string) string {
		id := uuid.NewSHA1(uuid.NameSpaceOID, []byte(name)).String()
		names[id] = name
		return id
	})
}

// format formats an answer for a scenario: the status, the headers that differ between answers, and the body. Of an
// error it prints the code, because its text may change.
func format(t *testing.T, resp *http.Response, names map[string]string) string {
	t.Helper()
	data, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	var b strings.Builder
	fmt.Fprint(&b, resp.StatusCode)
	for _, name := range []string{"Location", "Allow"} {
		if v := resp.Header.Get(name); v != "" {
			fmt.Fprintf(&b, " | %s: %s", strings.ToLower(name), strings.TrimPrefix(v, "http://example.com"))
		}
	}
	if resp.Header.Get("Last-Modified") != "" {
		fmt.Fprintf(&b, " | last-modified, %s", resp.Header.Get("Cache-Control"))
	}
	b.WriteString("\n")
	var errs api.ErrorsDoc
	switch {
	case len(data) == 0:
	case json.Unmarshal(data, &errs) == nil && len(errs.Errors) > 0:
		e := errs.Errors[0]
		if e.Status != resp.StatusCode || e.Title != http.StatusText(e.Status) || e.Detail == "" ||
			e.RequestID != resp.Header.Get("Openstack-Request-Id") {
			t.Errorf("incomplete error document: %s", data)
		}
		fmt.Fprintf(&b, "error %q\n", e.Code)
	default:
		var v any
		decoder := json.NewDecoder(bytes.NewReader(data))
		decoder.UseNumber()
		if err := decoder.Decode(&v); err != nil {
			t.Fatalf("%v in %s", err, data)
		}
		b.WriteString(pretty(t, v, ""))
	}
	out := b.String()
	for id, name := range names {
		out = strings.ReplaceAll(out, id, name)
	}
	return out
}

// pretty formats JSON on one line if it is short, otherwise with one member or item per line.
func pretty(t *testing.T, v any, indent string) string {
	t.Helper()
	data, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	if len(data) <= 140 {
		return string(data)
	}
	var parts []string
	deeper := indent + "  "
	switch v := v.(type) {
	case map[string]any:
		for _, name := range slices.Sorted(maps.Keys(v)) {
			parts = append(parts, fmt.Sprintf("%s%q: %s", deeper, name, pretty(t, v[name], deeper)))
		}
		return "{\n" + strings.Join(parts, ",\n") + "\n" + indent + "}"
	case []any:
		for _, item := range v {
			parts = append(parts, deeper+pretty(t, item, deeper))
		}
		return "[\n" + strings.Join(parts, ",\n") + "\n" + indent + "]"
	}
	return string(data)
}

// TestScenarios runs testdata/*.scenario. Each block is a request, `VERSION METHOD PATH [BODY]`, and its answer. Each
// scenario begins with an empty database.
func TestScenarios(t *testing.T) {
	files, err := filepath.Glob("testdata/*.scenario")
	if err != nil || len(files) == 0 {
		t.Fatalf("no scenarios: %v", err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".scenario"), func(t *testing.T) {
			t.Parallel()
			data, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			got := run(t, newWorld(t), string(data))
			if *update {
				if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
					t.Fatal(err)
				}
				return
			}
			was, is := strings.Split(string(data), "\n\n"), strings.Split(got, "\n\n")
			for i := range max(len(was), len(is)) {
				if i >= len(was) || i >= len(is) || was[i] != is[i] {
					t.Fatalf("block %d:\n%s\n--- want\n%s", i+1, at(is, i), at(was, i))
				}
			}
		})
	}
}

func at(list []string, i int) string {
	if i < len(list) {
		return list[i]
	}
	return "(nothing)"
}

// run sends the requests of a scenario and returns it with the actual answers.
func run(t *testing.T, w *world, scenario string) string {
	t.Helper()
	names := map[string]string{}
	var out []string
	for block := range strings.SplitSeq(strings.TrimRight(scenario, "\n"), "\n\n") {
		lines := strings.Split(block, "\n")
		at := slices.IndexFunc(lines, func(line string) bool { return !strings.HasPrefix(line, "#") })
		if at < 0 {
			out = append(out, block)
			continue
		}
		part := append(strings.SplitN(lines[at], " ", 4), "")
		if len(part) < 4 {
			t.Fatalf("%q is not a request", lines[at])
		}
		resp := w.ask(part[0], part[1], expand(part[2], names), expand(part[3], names))
		out = append(out, strings.Join(lines[:at+1], "\n")+"\n"+strings.TrimRight(format(t, resp, names), "\n"))
	}
	return strings.Join(out, "\n\n") + "\n"
}
