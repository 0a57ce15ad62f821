#!/bin/sh
# PyYAML 6.0.2 (PyPI), and with it Ansible, reads many PCI addresses without quotes as numbers.
#
# YAML 1.1 counts in base 60: digits with colons and a dot at the end are a "sexagesimal" float. So 0000:01:00.0 is 60.0,
# while the next card's 0000:3b:00.0 has a letter and stays text. Quotes keep both.
#
# Seen: [60.0, 1020.0, '0000:3b:00.0', '0000:01:00.0'] of the four addresses below.
# Why it matters: cards in an inventory are named by such addresses, and only some of a node's cards are hit.
set -eu
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
python3 -m venv "$work/venv" && "$work/venv/bin/pip" install --quiet PyYAML==6.0.2 2>"$work/said" || { cat "$work/said" >&2; exit 2; }
seen=$("$work/venv/bin/python" -c 'import yaml
print(yaml.safe_load("[0000:01:00.0, 0000:17:00.0, 0000:3b:00.0, \"0000:01:00.0\"]"))')
[ "$seen" = "[60.0, 1020.0, '0000:3b:00.0', '0000:01:00.0']" ] || { echo "seen now: $seen" >&2; exit 1; }
