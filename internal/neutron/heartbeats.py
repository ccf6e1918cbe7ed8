"""Sends heartbeats of agents to neutron-server, each second one for each file DIRECTORY/*.json.

Usage: heartbeats.py URL-OF-RABBITMQ DIRECTORY. A file has the state of an agent as JSON. The first heartbeat with a new
content has the flag start_flag, like that of an agent that has just started.
"""
import datetime
import glob
import json
import os
import sys
import time

import oslo_messaging
from neutron_lib import context
from oslo_config import cfg


def main(url, directory):
    cfg.CONF([])
    transport = oslo_messaging.get_rpc_transport(cfg.CONF, url=url)
    target = oslo_messaging.Target(exchange='neutron', topic='q-reports-plugin', version='1.2')
    client = oslo_messaging.RPCClient(transport, target, timeout=60)
    caller = context.get_admin_context_without_session().to_dict()
    sent = {}
    while True:
        for path in sorted(glob.glob(os.path.join(directory, '*.json'))):
            try:
                with open(path) as file:
                    text = file.read()
            except FileNotFoundError:  # the agent has been stopped
                continue
            state = json.loads(text)
            if sent.get(path) != text:
                state['start_flag'] = True
            now = datetime.datetime.utcnow().strftime('%Y-%m-%dT%H:%M:%S.%f')
            client.call(caller, 'report_state', agent_state={'agent_state': state}, time=now)
            sent[path] = text
        time.sleep(1)


main(*sys.argv[1:])
