package metrics

import (
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"
)

var sampleLine = regexp.MustCompile(`^([a-z_][a-z0-9_]*)(\{(?:[a-z_]+="(?:[^"\\\n]|\\["\\n])*",?)*\})? (\S+)$`)

// The answer of /metrics is Prometheus' text format, also if labels contain quotes and line ends: each sample occurs
// once, after the help and the type of its metric, and the buckets of a histogram increase up to its count.
func TestTextFormat(t *testing.T) {
	s := busy()
	s.Request("/a\"b\\c\nd", "GET", 200, time.Second, 1)
	types, helps, seen := map[string]string{}, map[string]bool{}, map[string]bool{}
	values, last := map[string]float64{}, map[string]float64{}
	buckets := regexp.MustCompile(`,?le="[^"]+"`)
	samples := 0
	for line := range strings.Lines(shown(t, s)) {
		line = strings.TrimSuffix(line, "\n")
		if rest, ok := strings.CutPrefix(line, "# HELP "); ok {
			name, text, _ := strings.Cut(rest, " ")
			if helps[name] || text == "" {
				t.Errorf("helps twice, or not at all: %s", line)
			}
			helps[name] = true
			continue
		}
		if rest, ok := strings.CutPrefix(line, "# TYPE "); ok {
			name, kind, _ := strings.Cut(rest, " ")
			types[name] = kind
			continue
		}
		m := sampleLine.FindStringSubmatch(line)
		if m == nil {
			t.Errorf("no sample: %q", line)
			continue
		}
		value, err := strconv.ParseFloat(m[3], 64)
		name := m[1]
		for _, suffix := range []string{"_bucket", "_sum", "_count"} {
			if base, ok := strings.CutSuffix(name, suffix); ok && (types[base] == "histogram" || types[base] == "summary") {
				name = base
			}
		}
		if err != nil || seen[m[1]+m[2]] || types[name] == "" || !helps[name] {
			t.Errorf("%q: %v; known: %v; type %q", line, err, seen[m[1]+m[2]], types[name])
		}
		seen[m[1]+m[2]] = true
		samples++
		if types[name] == "histogram" && strings.HasSuffix(m[1], "_bucket") {
			series := name + strings.Replace(buckets.ReplaceAllString(m[2], ""), "{}", "", 1)
			if value < last[series] {
				t.Errorf("a bucket is smaller than the one before: %s", line)
			}
			last[series] = value
		}
		values[m[1]+m[2]] = value
	}
	for series, most := range last {
		name, labels, _ := strings.Cut(series, "{")
		if labels != "" {
			labels = "{" + labels
		}
		if count, ok := values[name+"_count"+labels]; !ok || count != most {
			t.Errorf("%s counts %g, and its last bucket %g", series, count, most)
		}
	}
	if samples < 100 || len(last) < 4 {
		t.Errorf("%d samples, %d histograms", samples, len(last))
	}
}
