#!/usr/bin/python3 -IS
"""Behaves as the program openstack does: the server at the socket runs the call with the streams of this process."""
import json
import os
import socket
import sys

umask = os.umask(0)
os.umask(umask)
call = socket.socket(socket.AF_UNIX)
call.connect("\0" + "SOCKET")
request = json.dumps({"arguments": sys.argv[1:], "directory": os.getcwd(), "umask": umask,
                      "environment": dict(os.environ)}).encode()
sent = socket.send_fds(call, [request], [0, 1, 2])
call.sendall(request[sent:])
call.shutdown(socket.SHUT_WR)
status = call.recv(1)
if not status:
    sys.exit("the server of the openstack client ended the call")
sys.exit(status[0])
