#!/usr/bin/env bash
# Installs gpufeed into .venv, if that isn't done yet, and runs `gpufeed compare` with the arguments given here.
#
# Usage: bash scripts/compare.sh [DATA] [OPTIONS]     see bash scripts/compare.sh --help
#
# Needs Python 3.11 or newer, with pip. PYTHON=/path/to/python chooses it.
set -euo pipefail
unset CDPATH

# A closed stdin would be taken by the next file that is opened.
if ! { : <&0; } 2>/dev/null; then exec </dev/null; fi

root="$(cd -- "$(dirname -- "${BASH_SOURCE[0]}")/.." && pwd)"
bash "$root/scripts/setup_venv.sh"
exec "$root/.venv/bin/gpufeed" compare "$@"
