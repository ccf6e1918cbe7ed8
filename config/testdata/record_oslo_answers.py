"""Asks oslo.config what it makes of the cases in oslo_cases.json, and prints oslo_answers.json.

Debian's python3-oslo.config 9.0.0 gave the answers in this directory: /usr/bin/python3 record_oslo_answers.py > oslo_answers.json
"""
import importlib.metadata
import json
import os
import sys
import tempfile

from oslo_config import cfg

HERE = os.path.dirname(os.path.abspath(__file__))


def write(directory, number, text):
    path = os.path.join(directory, '%d.conf' % number)
    with open(path, 'wb') as out:
        out.write(text.encode('utf-8'))
    return path


def parse(directory, text):
    sections = {}
    try:
        cfg.ConfigParser(write(directory, 0, text), sections).parse()
    except Exception as error:
        return {'error': str(error).replace(directory + '/', '')}
    return {'sections': {name: options for name, options in sections.items() if options}}


def option(ask):
    kind = dict(ask)
    old = [cfg.DeprecatedOpt(n['option'] or kind['option'], group=n['group'] or None) for n in kind.get('deprecated', [])]
    name, limits = kind['option'], {k: kind[k] for k in ('min', 'max') if k in kind}
    if kind['type'] == 'string':
        return cfg.StrOpt(name, choices=kind.get('choices'), deprecated_opts=old)
    if kind['type'] == 'int':
        return cfg.IntOpt(name, deprecated_opts=old, **limits)
    if kind['type'] == 'float':
        return cfg.FloatOpt(name, deprecated_opts=old, **limits)
    return {'bool': cfg.BoolOpt, 'strings': cfg.ListOpt, 'multi': cfg.MultiStrOpt}[kind['type']](name, deprecated_opts=old)


def read(directory, case):
    conf = cfg.ConfigOpts()
    for ask in case['read']:
        conf.register_opt(option(ask), group=None if ask['group'] == 'DEFAULT' else ask['group'])
    files = [write(directory, i, text) for i, text in enumerate(case['files'])]
    conf([], default_config_files=files, default_config_dirs=[])
    answers = []
    for ask in case['read']:
        try:
            group = conf if ask['group'] == 'DEFAULT' else conf[ask['group']]
            answers.append({'value': group[ask['option']]})
        except (Exception, RecursionError) as error:
            answers.append({'error': type(error).__name__})
    return answers


def main():
    with open(os.path.join(HERE, 'oslo_cases.json')) as source:
        cases = json.load(source)
    with tempfile.TemporaryDirectory() as directory:
        answers = {
            'version': importlib.metadata.version('oslo.config'),
            'parse': {case['name']: parse(directory, case['text']) for case in cases['parse']},
            'read': {case['name']: read(directory, case) for case in cases['read']},
        }
    json.dump(answers, sys.stdout, indent=1, ensure_ascii=True)
    print()


main()
