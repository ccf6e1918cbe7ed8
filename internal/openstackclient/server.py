"""Runs the openstack client for the program of call.py: one process with its modules loaded, which forks for each call.

The argument is the name of its socket, which is no file. It prints "ready" when it accepts calls. It ends with its
standard input, and ends its calls then.
"""
import importlib
import json
import os
import select
import signal
import socket
import sys
import traceback

SOCKET = sys.argv[1]
sys.argv = ["openstack"]  # the client's messages contain the name that it has when it is loaded

from openstackclient import shell


def receive(call):
    """Returns what call.py sends, and its three standard streams."""
    data, streams, _, _ = socket.recv_fds(call, 65536, 3)
    while more := call.recv(65536):
        data += more
    return json.loads(data), streams


def become(request, streams):
    """Makes this process what the process of call.py is."""
    for number, stream in enumerate(streams):
        os.dup2(stream, number)
        os.close(stream)
    sys.stdin = open(0, closefd=False)
    sys.stdout = open(1, "w", closefd=False)
    sys.stderr = open(2, "w", buffering=1, closefd=False)
    os.chdir(request["directory"])
    os.umask(request["umask"])
    os.environ.clear()
    os.environ.update(request["environment"])
    sys.argv = ["openstack", *request["arguments"]]


def run():
    """Does what the program openstack does, and returns its exit status."""
    try:
        sys.exit(shell.main())
    except SystemExit as end:
        if end.code is None or isinstance(end.code, int):
            return (end.code or 0) & 255
        print(end.code, file=sys.stderr)
    except BaseException:
        traceback.print_exc()
    return 1


def serve(call, learned):
    """Runs one call in this new process, and sends the names of all modules that it has loaded to learned."""
    request, streams = receive(call)
    become(request, streams)
    status = run()
    for stream in sys.stdout, sys.stderr:
        try:
            stream.flush()
        except OSError:
            status = status or 120
    call.send(bytes([status]))
    os.write(learned, json.dumps(sorted(sys.modules)).encode())


def load(names):
    """Loads modules, so that later calls have them. One that cannot be loaded is left to the calls."""
    for name in names:
        if name not in sys.modules:
            try:
                importlib.import_module(name)
            except Exception:
                pass


def main():
    listener = socket.socket(socket.AF_UNIX)
    listener.bind("\0" + SOCKET)
    listener.listen(128)
    os.setpgid(0, 0)
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    print("ready", flush=True)
    lessons = set()  # pipes of the calls
    while True:
        ready, _, _ = select.select([0, listener, *lessons], [], [])
        if 0 in ready and not os.read(0, 1):
            os.killpg(0, signal.SIGKILL)
        for lesson in lessons.intersection(ready):
            with os.fdopen(lesson) as text:
                names = text.read()
            lessons.remove(lesson)
            load(json.loads(names) if names else [])
        if listener in ready:
            call, _ = listener.accept()
            lesson, learned = os.pipe()
            if os.fork() == 0:
                signal.signal(signal.SIGCHLD, signal.SIG_DFL)
                listener.close()
                try:
                    serve(call, learned)
                finally:
                    os._exit(1)
            call.close()
            os.close(learned)
            lessons.add(lesson)


main()
