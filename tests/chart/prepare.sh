#!/usr/bin/env bash
# What the checks of chart, rules and image need, into target/tools/python; prints the path of its Python. Packages come from PyPI
# and, for promtool, from Debian (as root); otherwise it says what to install.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
root=$(cd "$here/../.." && pwd)
. "$here/../services/processes.sh"

venv=$root/target/tools/python
need promtool prometheus
need python3 python3 python3-venv
wanted=$(cat "$here"/requirements*.txt)
# The stamp is written last, so that an installation that was cut is made anew.
if [ "$(cat "$venv/requirements.stamp" 2>/dev/null)" != "$wanted" ]; then
  say "installing the Python packages of tests/chart/requirements.txt ..."
  rm -rf "$venv"
  python3 -m venv "$venv" || fail "python3 cannot make a virtual environment; install the Debian package python3-venv"
  pip=("$venv/bin/pip" install --quiet --disable-pip-version-check)
  "${pip[@]}" --requirement "$here/requirements.txt" >&2 || fail "pip could not install tests/chart/requirements.txt"
  "${pip[@]}" --no-deps --requirement "$here/requirements-no-deps.txt" >&2 || fail "pip could not install requirements-no-deps.txt"
  echo "$wanted" >"$venv/requirements.stamp"
fi
echo "$venv/bin/python"
