#!/usr/bin/env bash
# Set everything up in .venv and run the checks and the tests.
#
#   bash scripts/test.sh [--all] [PYTEST ARGUMENTS...]
#
# Without --all the slow tier stays out. Needs Python 3.11 or newer and pip; PYTHON names another interpreter.
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
cd "$root"
bash scripts/setup_venv.sh dev

tier="not slow"
if [ "${1:-}" = "--all" ]; then
  tier=""
  shift
fi
bin="$root/.venv/bin"
echo "ruff format, ruff check" >&2
"$bin/ruff" format --check --quiet .
"$bin/ruff" check --quiet .
echo "pyright" >&2
"$bin/pyright" --pythonpath "$bin/python" gpufeed
if [ $# -gt 0 ]; then
  echo "pytest" >&2
  exec "$bin/python" -m pytest -m "$tier" "$@"
fi
echo "pytest, in two processes; the README first, as it takes longest" >&2
failed=0
"$bin/python" -m pytest -n 2 --dist loadfile --no-loadscope-reorder --durations=30 \
  -m "not alone${tier:+ and $tier}" tests/test_readme.py tests || failed=1
echo "pytest, what runs alone" >&2
"$bin/python" -m pytest --durations=10 -m "alone${tier:+ and $tier}" || failed=1
exit $failed
