"""Makes random rules, credentials and targets, asks oslo.policy about them, and prints one case a line.

Debian's python3-oslo.policy 4.0.0 gave the answers in this directory:
/usr/bin/python3 random_oslo_policy_cases.py 3 2000 > oslo_policy_cases.jsonl
An answer is true or false; "refused" when oslo.policy logged that it does not understand a rule; "raised" when the
question ended in an exception. Cases that are odd have rules that oslo.policy accepts, to fail at each request.
"""
import json
import logging
import os
import random
import sys
import tempfile
import warnings

import yaml
from oslo_config import cfg
from oslo_policy import _parser
from oslo_policy import policy

warnings.simplefilter('ignore')
R = random.Random(int(sys.argv[1]))
ODD = [False]  # whether the case at hand may have odd rules
REFUSED = []


class Listener(logging.Handler):
    def emit(self, record):
        if 'Failed to understand' in record.msg:
            REFUSED.append(record.msg)


logging.getLogger('oslo_policy').addHandler(Listener())
logging.getLogger('oslo_policy').propagate = False

ROLES = ['admin', 'Reader', 'member', 'service', 'rôle', 'a:b']
TEXTS = ['p1', 'p2', 'all', 'True', 'None', '1', '1.0', 'admin', '100%', "it's", 'ü', '']
KEYS = ['project_id', 'user_id', 'domain_id', 'system_scope', 'is_admin', 'count', 'share', 'token.project.id', 'user.name', 'groups', 'nested']
NAMES = ['a', 'b', 'c', 'd', 'default', 'x:y:z', 'missing']


def value(depth=0):
    kinds = [lambda: R.choice(TEXTS), lambda: R.choice(TEXTS), lambda: R.choice([True, False, None]),
             lambda: R.choice([0, 1, -7, 10**12]), lambda: R.choice([1.0, 0.5, 1e16, 1e-5, -2.25])]
    if depth < 2:
        kinds.append(lambda: [value(depth + 1) for _ in range(R.randint(0, 3))])
    return R.choice(kinds)()


def creds():
    c = {}
    for key in KEYS:
        if R.random() < 0.5 and '.' not in key:
            c[key] = value()
    if R.random() < 0.9:
        c['roles'] = R.sample(ROLES, R.randint(0, 3))
    if R.random() < 0.6:
        c['token'] = {'project': {'id': value()}, 'user': {'domain': {'id': R.choice(TEXTS)}}}
    if R.random() < 0.4:
        c['user'] = [{'name': R.choice(TEXTS)} for _ in range(R.randint(0, 3))]
    if R.random() < 0.3:
        c['nested'] = {'list': [value() for _ in range(R.randint(0, 3))], 'one': {'two': R.choice(TEXTS)}}
    return c


def target():
    return {k: value() for k in KEYS + ['role.name', 'a(b)'] if R.random() < 0.6}


def match():
    n = R.random()
    if n < 0.45:
        return '%%(%s)s' % R.choice(KEYS + ['role.name', 'a(b)', 'absent'])
    if n < 0.85:
        return R.choice(TEXTS).replace('%', '%%')
    if n < 0.97 or not ODD[0]:
        return 'x%%(%s)s-%%%%' % R.choice(KEYS)
    return R.choice(['%', '%(x', '%(x)', '50%', '%d%q'])


def kind():
    n = R.random()
    if n < 0.6:
        return R.choice(KEYS + ['token.project.id', 'token.user.domain.id', 'nested.list', 'nested.one.two', 'user.name', 'os-thing', 'system', 'absent.deep'])
    if n < 0.95 or not ODD[0]:
        return R.choice(["'admin'", '"p1"', 'True', 'False', 'None', '1', '00', '1.0', '1_0', '-7', '+1', '0.5', '1e16', '.5', "''", "'ü'"])
    return R.choice(['', '1a', '01', '%(x)s', 'a..b', "'a", '$'])


def check():
    n = R.random()
    if n < 0.07:
        return R.choice(['@', '!'])
    if n < 0.4:
        return 'role:' + R.choice(ROLES + [r.upper() for r in ROLES] + ['%(user_id)s', '%(absent)s'])
    if n < 0.55:
        return 'rule:' + R.choice(NAMES)
    if n < 0.985 or not ODD[0]:
        return kind() + ':' + match()
    return R.choice(['role', "'alone'", '"a":"b"', 'and', 'or', '()', 'not', ')'])


def expression(depth=0):
    n = R.random()
    if depth > 3 or n < 0.35:
        return check()
    if n < 0.5:
        return R.choice(['not ', 'NOT  ', 'Not\t']) + expression(depth + 1)
    if n < 0.65:
        return R.choice(['(%s)', '( %s )', '((%s))']) % expression(depth + 1)
    word = R.choice([' and ', ' or ', ' AND ', '  Or\n', ' and ', ' or '])
    return word.join(expression(depth + 1) for _ in range(R.randint(2, 4)))


def rule():
    n = R.random()
    if n < 0.85:
        return expression()
    if n < 0.9:
        return R.choice(['', '  ' if ODD[0] else '@', '!', [], [[]], [[], 'role:admin']])
    return [R.choice([check(), [check() for _ in range(R.randint(0, 3))]]) for _ in range(R.randint(1, 3))]


def defaults():
    made = []
    for name in R.sample(['a', 'b', 'c', 'd'], R.randint(0, 4)):
        d = {'name': name, 'check': expression(2)}
        if R.random() < 0.4:
            d['scopes'] = R.sample(['system', 'domain', 'project'], R.randint(1, 2))
        if R.random() < 0.5:
            d['deprecated'] = {'name': R.choice([name, 'old:' + name]), 'check': R.choice([expression(2), d['check']])}
        made.append(d)
    return made


def cyclic(rules):
    def names(text):
        return [] if not isinstance(text, str) else [w.strip('()')[5:] for w in text.split() if w.strip('()').startswith('rule:')]

    def listed(r):
        if isinstance(r, list):
            return [n for i in r for c in ([i] if isinstance(i, str) else i) for n in ([c[5:]] if c.startswith('rule:') else [])]
        return names(r)
    edges = {n: [('default' if m not in rules else m) for r in rs for m in listed(r) if m in rules or 'default' in rules] for n, rs in rules.items()}

    def walk(n, trail):
        return n in trail or any(walk(m, trail | {n}) for m in edges[n])
    return any(walk(n, frozenset()) for n in edges)


def ask(case, text, directory):
    path = os.path.join(directory, 'policy.yaml')
    with open(path, 'w') as out:
        out.write(text)
    conf = cfg.ConfigOpts()
    conf(['--config-dir', directory], project='x')
    enforcer = policy.Enforcer(conf, policy_file=path)
    conf.set_override('enforce_new_defaults', case['newDefaults'], 'oslo_policy')
    conf.set_override('enforce_scope', case['scope'], 'oslo_policy')
    conf.set_override('policy_dirs', [], 'oslo_policy')
    del REFUSED[:]
    for d in case['defaults']:
        old = d.get('deprecated')
        enforcer.register_default(policy.RuleDefault(
            d['name'], d['check'], scope_types=d.get('scopes'),
            deprecated_rule=policy.DeprecatedRule(old['name'], old['check'], deprecated_reason='r', deprecated_since='s') if old else None))
    enforcer.load_rules()
    if REFUSED:
        return 'refused'
    want = {}
    for name in ['a', 'b', 'c', 'd', 'nobody']:
        try:
            want[name] = bool(enforcer.enforce(name, dict(case['target']), json.loads(json.dumps(case['creds']))))
        except Exception:
            want[name] = 'raised'
    return want


def make(directory):
    ODD[0] = R.random() < 0.15
    case = {'odd': ODD[0], 'newDefaults': R.random() < 0.5, 'scope': R.random() < 0.5, 'defaults': defaults(), 'creds': creds(), 'target': target()}
    names = [n for n in ['a', 'b', 'c', 'd', 'default', 'x:y:z', 'old:a', 'old:b'] if R.random() < 0.3]
    rules = {n: rule() for n in names}
    every = {n: [r] for n, r in rules.items()}
    for d in case['defaults']:
        old = d.get('deprecated')
        every.setdefault(d['name'], []).extend([d['check']] + ([old['check']] if old else []))
        if old and old['name'] in rules and old['name'] != d['name'] and str(_parser.parse_rule(rules[old['name']])) == str(_parser.parse_rule(old['check'])):
            return None  # newer releases of oslo.policy answer otherwise
        if old and old['name'] in rules and old['name'] != d['name']:
            every[d['name']].append(rules[old['name']])
    if cyclic(every):
        return None
    text = R.choice([lambda: json.dumps(rules, indent=1), lambda: yaml.safe_dump(rules, allow_unicode=True)])()
    case['file'] = text
    case['want'] = ask(case, text, directory)
    return case


with tempfile.TemporaryDirectory() as directory:
    left = int(sys.argv[2])
    while left:
        case = make(directory)
        if case:
            print(json.dumps(case, ensure_ascii=False, separators=(',', ':')))
            left -= 1
