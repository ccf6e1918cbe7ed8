package sqldb

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/openberth/berth/fault"
	"github.com/openberth/berth/internal/testenv"
)

// holdVariable names the database that the second process of TestLockHolderIsNamed writes to.
const holdVariable = "BERTH_TEST_HOLD"

// holdFile is run by that process: it begins a write, and ends it when its standard input ends.
func holdFile(url string) error {
	ctx := context.Background()
	db, err := Open(ctx, url)
	if err != nil {
		return err
	}
	err = db.Write(ctx, func(tx *Tx) error {
		if err := insertRow("held")(tx); err != nil {
			return err
		}
		fmt.Println("writing")
		_, err := io.Copy(io.Discard, os.Stdin)
		return err
	})
	return errors.Join(err, db.Close())
}

// TestLockHolderIsNamed writes to a file while another process writes to it: the error names that process and what to
// do, at once if the process is stopped.
func TestLockHolderIsNamed(t *testing.T) {
	url := fileURL(t)
	db := open(t, url)
	onWriter(t, db, "PRAGMA busy_timeout = 0")
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), holdVariable+"="+url)
	stdin, err := cmd.StdinPipe()
	must(t, err)
	stdout, err := cmd.StdoutPipe()
	must(t, err)
	must(t, cmd.Start())
	ended := false
	t.Cleanup(func() {
		if !ended {
			cmd.Process.Kill()
			cmd.Wait()
		}
	})
	for lines := bufio.NewScanner(stdout); lines.Scan() && lines.Text() != "writing"; {
	}
	pid := cmd.Process.Pid
	wantLocked := func(err error, words ...string) {
		t.Helper()
		for _, word := range append(words, fmt.Sprintf("process %d (", pid), db.file) {
			if !fault.Is(err, fault.Unavailable) || !strings.Contains(fault.TextOf(err), word) {
				t.Errorf("without %q: %v", word, err)
			}
		}
	}
	wantLocked(db.WriteUpTo(t.Context(), 1, insertRow("a")), fmt.Sprintf("`kill %d`", pid))

	must(t, cmd.Process.Signal(syscall.SIGSTOP))
	waitStopped(t, pid)
	runs := 0
	db.backoff.Jitter = func(time.Duration) time.Duration { runs++; return 0 }
	wantLocked(db.Write(t.Context(), insertRow("b")), "which is stopped", fmt.Sprintf("`kill -CONT %d`", pid),
		fmt.Sprintf("`kill -KILL %d`", pid))
	if runs != 0 {
		t.Errorf("repeated %d times", runs)
	}

	must(t, cmd.Process.Signal(syscall.SIGCONT))
	must(t, stdin.Close())
	must(t, cmd.Wait())
	ended = true
	must(t, db.Write(context.Background(), insertRow("c")))
	wantNames(t, db, "held", "c")
}

func waitStopped(t *testing.T, pid int) {
	t.Helper()
	testenv.Until(t, fmt.Sprintf("process %d has stopped", pid), func() bool { return describe(pid).stopped })
}

// TestProcLocksLineIsParsed parses lines of /proc/locks.
func TestProcLocksLineIsParsed(t *testing.T) {
	for line, want := range map[string]string{
		"3: POSIX  ADVISORY  WRITE 4711 fe:00:1234 120 120":    "4711 1234",
		"3: POSIX  ADVISORY  READ 4711 fe:00:1234 124 124":     "0 0",
		"3: -> POSIX  ADVISORY  WRITE 4712 fe:00:1234 120 120": "0 0",
		"3: OFDLCK ADVISORY  WRITE -1 fe:00:1234 0 EOF":        "-1 1234",
		"": "0 0",
	} {
		pid, inode := writeLock(line)
		if got := fmt.Sprint(pid, " ", inode); got != want {
			t.Errorf("%q: %s, want %s", line, got, want)
		}
	}
	if h := (holder{}).locked("/a.db", nil); !strings.Contains(fault.TextOf(h), "`fuser /a.db`") {
		t.Error(h)
	}
}
