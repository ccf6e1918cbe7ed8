package databases

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
)

// logName is the file in the server's directory with its output.
const logName = "server.log"

// script starts a server, prints its process id and reads a word. Without a word (the test has ended or died) it
// ends the server fast and removes its directory. With a word it kills the server and keeps the directory.
// PostgreSQL's children survive their parent for a moment and still respond, so it waits for them too.
const script = `dir=$1; end=$2; shift 2
"$@" </dev/null >>"$dir/` + logName + `" 2>&1 &
p=$!; echo $p; read word
if [ "$word" ]; then
	children=$(cat /proc/$p/task/$p/children 2>/dev/null); kill -KILL $p; wait $p
	for c in $children; do while grep -q "^State:[[:space:]]*[^ZX]" /proc/$c/status 2>/dev/null; do sleep 0.01; done; done
else kill -$end $p; wait $p; rm -rf "$dir"; fi`

// warden is the process that supervises a server.
type warden struct {
	cmd  *exec.Cmd
	life io.WriteCloser
	pid  int // of the server
}

// hold starts a server under a warden.
func hold(server *exec.Cmd, end, dir string) (*warden, error) {
	cmd := exec.Command("/bin/sh", append([]string{"-c", script, "sh", dir, end, server.Path}, server.Args[1:]...)...)
	cmd.Dir, cmd.Env, cmd.SysProcAttr = server.Dir, server.Env, server.SysProcAttr
	log, err := os.Create(filepath.Join(dir, "warden.log"))
	if err != nil {
		return nil, err
	}
	defer log.Close()
	cmd.Stderr = log // of the shell itself
	w := &warden{cmd: cmd}
	if w.life, err = cmd.StdinPipe(); err != nil {
		return nil, err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	line, err := bufio.NewReader(out).ReadString('\n')
	if err == nil {
		w.pid, err = strconv.Atoi(strings.TrimSpace(line))
	}
	if err != nil {
		w.end(true)
		return nil, fmt.Errorf("the warden of %s does not print a process id: %w", server.Path, err)
	}
	return w, nil
}

// over reports whether the server has ended by itself. Its parent has not waited for it, so its process id is not
// reused.
func (w *warden) over() bool {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", w.pid))
	if err != nil {
		return true
	}
	_, state, _ := strings.Cut(string(stat), ") ")
	return strings.HasPrefix(state, "Z")
}

// end ends the server and waits until it and its warden have ended.
func (w *warden) end(kill bool) {
	if kill {
		io.WriteString(w.life, "kill\n") // a warden that has ended has ended the server
	}
	w.life.Close()
	w.cmd.Wait() // it reports how the server ended, by our signal
}
