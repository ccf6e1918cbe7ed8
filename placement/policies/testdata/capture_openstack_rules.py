"""Prints the rules of OpenStack's Placement as JSON: names, checks, scopes, what they replace, and the requests they guard.

Debian's python3-placement 8.0.0 gave openstack_rules_zed.json: /usr/bin/python3 capture_openstack_rules.py > FILE
A checkout of Placement at 7ad9ef07 gave openstack_rules_newest.json:
/usr/bin/python3 capture_openstack_rules.py /path/to/checkout > FILE
"""
import json
import sys
import warnings

warnings.simplefilter('ignore')
sys.path[:0] = sys.argv[1:]
from placement import policies  # noqa: E402

print(json.dumps([{
    'name': r.name, 'check': r.check_str, 'scopes': r.scope_types or [],
    'deprecated': {'name': r.deprecated_rule.name, 'check': r.deprecated_rule.check_str} if r.deprecated_rule else None,
    'guards': sorted('%(method)s %(path)s' % o for o in getattr(r, 'operations', [])),
} for r in policies.list_rules()], indent=1))
