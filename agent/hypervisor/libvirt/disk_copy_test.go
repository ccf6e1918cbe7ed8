package libvirt

import (
	"os"
	"path/filepath"
	"testing"
)

// TestCopyLeavesOtherNames copies a disk where an interrupted Build has left a second name of a disk in use, with and
// without a record of another copy, and with damaged ones: that disk keeps its content.
func TestCopyLeavesOtherNames(t *testing.T) {
	dir := t.TempDir()
	source, used, to := filepath.Join(dir, "source"), filepath.Join(dir, "used"), filepath.Join(dir, "copy")
	must(t, os.WriteFile(source, []byte("other"), 0o600))
	must(t, os.WriteFile(used, []byte("content"), 0o600))
	var p transferProgress
	for _, record := range []string{"", "{", "\x00\x00", "null", `{"host":"b","size":7,"copied":7,"verified":true}`} {
		_ = os.Remove(to)
		must(t, os.Link(used, to))
		must(t, os.WriteFile(to+recordSuffix, []byte(record), 0o600))
		c := &copier{from: localFile(source), to: to, progress: &p, record: copyRecord{Host: "a", Path: source}}
		must(t, c.run(t.Context()))
		if text, err := os.ReadFile(used); string(text) != "content" || err != nil {
			t.Errorf("the disk in use has %q: %v", text, err)
		}
		if text, err := os.ReadFile(to); string(text) != "other" || err != nil {
			t.Errorf("the copy has %q: %v", text, err)
		}
		if c.forget(); c.record.Verified || c.record.Copied != 0 {
			t.Errorf("forgotten: %+v", c.record)
		}
	}
}
