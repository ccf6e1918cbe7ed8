package archtest

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// processWide matches calls that change what all tests of a process have: the umask, the directory, the environment.
var processWide = regexp.MustCompile(`\b(syscall|unix)\.Umask\(|\bos\.(Chdir|Setenv|Unsetenv|Clearenv)\(`)

// A test that runs beside others changes nothing of the process: the others would fail, rarely, and without a reason
// that can be seen. Start a process with the umask, the directory or the environment instead.
func TestParallelTestsChangeNothingOfTheProcess(t *testing.T) {
	functions := 0
	err := filepath.WalkDir(filepath.Join("..", ".."), func(path string, _ fs.DirEntry, err error) error {
		if err != nil || !strings.HasSuffix(path, "_test.go") {
			return err
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		for function := range strings.SplitSeq(string(text), "\nfunc ") {
			functions++
			if call := processWide.FindString(function); call != "" && strings.Contains(function, "t.Parallel()") {
				name, _, _ := strings.Cut(function, "(")
				t.Errorf("%s: %s runs beside other tests and calls %s)", path, name, call)
			}
		}
		return nil
	})
	if err != nil || functions < 5000 {
		t.Errorf("%d functions: %v", functions, err)
	}
}
