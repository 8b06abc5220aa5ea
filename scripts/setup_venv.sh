#!/usr/bin/env bash
# Makes .venv at the root of this repository and installs gpufeed into it, editable. Cheap to run again: it installs
# only when pyproject.toml has changed since the last time, or the repository has moved.
#
# Usage: bash scripts/setup_venv.sh [EXTRA]     EXTRA: an optional dependency group of pyproject.toml, such as dev
#
# PYTHON=/path/to/python chooses the Python that .venv is made from. Says what it does on stderr, asks nothing.
set -euo pipefail
unset CDPATH

extra="${1:-}"
root="$(cd -- "$(dirname -- "${BASH_SOURCE[0]}")/.." && pwd)"
venv="$root/.venv"
venv_python="$venv/bin/python"

say() { printf 'gpufeed: %s\n' "$*" >&2; }
fail() {
  say "$@"
  exit 1
}

version_of() { "$1" -c 'import sys; print("%d.%d" % sys.version_info[:2])' 2>/dev/null </dev/null; }
is_new_enough() { "$1" -c 'import sys; sys.exit(sys.version_info < (3, 11))' >/dev/null 2>&1 </dev/null; }

find_python() {
  if [[ -n "${PYTHON:-}" ]]; then
    [[ -n "$(version_of "$PYTHON")" ]] || fail "PYTHON=$PYTHON is not a Python that runs."
    is_new_enough "$PYTHON" || fail "Python 3.11 or newer is needed, and PYTHON=$PYTHON is $(version_of "$PYTHON")."
    printf '%s\n' "$PYTHON"
    return
  fi
  local candidate found=""
  for candidate in python3 python python3.14 python3.13 python3.12 python3.11; do
    if is_new_enough "$candidate"; then
      printf '%s\n' "$candidate"
      return
    fi
    [[ -n "$found" ]] || found="$(version_of "$candidate" || true)"
  done
  fail "Python 3.11 or newer is needed, and here is ${found:-none at all}. Install one, or set PYTHON to its path."
}

make_venv() {
  if [[ -e "$venv_python" ]] && version_of "$venv_python" >/dev/null; then
    is_new_enough "$venv_python" ||
      fail "$venv has Python $(version_of "$venv_python"), and 3.11 or newer is needed. Remove the folder and run this again."
    return
  fi
  local python
  python="$(find_python)"
  say "making $venv with Python $(version_of "$python")"
  "$python" -m venv --clear "$venv" </dev/null >&2 ||
    fail "Python can't make $venv (see above). On Debian and Ubuntu, the package python3-venv is needed for it."
}

# What an installation depends on: the dependencies, and where the editable package lies.
fingerprint() {
  "$venv_python" - "$root" <<'PYTHON'
import hashlib, pathlib, sys
root = pathlib.Path(sys.argv[1])
print(hashlib.sha256((root / "pyproject.toml").read_bytes() + str(root).encode()).hexdigest())
PYTHON
}

# Runs pip quietly, and says now and then that it still runs.
pip_install() {
  local seconds=0 pid status=0
  "$venv_python" -m pip install --quiet --no-input --disable-pip-version-check "$@" </dev/null >&2 &
  pid=$!
  # bash shields background commands from Ctrl-C, so it is passed on.
  trap 'kill "$pid" 2>/dev/null; exit 130' INT TERM
  while kill -0 "$pid" 2>/dev/null; do
    sleep 1
    seconds=$((seconds + 1))
    ((seconds % 30)) || say "still installing after $seconds seconds"
  done
  wait "$pid" || status=$?
  trap - INT TERM
  return "$status"
}

install() {
  local pip_version
  pip_version="$("$venv_python" -m pip --version 2>/dev/null </dev/null | awk '{print $2}')"
  if [[ -z "$pip_version" ]]; then
    "$venv_python" -m ensurepip >&2 </dev/null || fail "$venv has no pip, and Python can't bring it."
    pip_version=0
  fi
  if ((${pip_version%%.*} < 23)); then
    say "upgrading pip in .venv"
    pip_install --upgrade pip || fail "pip could not be upgraded (see above)."
  fi
  say "installing gpufeed${extra:+ with the extra $extra} and what it needs into .venv (torch and DALI: some gigabytes)"
  pip_install --editable "$root${extra:+[$extra]}" || fail "the installation failed (see above). Run this again to go on."
  say "installed"
}

# Two runs at once take turns; the lock is on a file that is there anyway.
exec 9<"$root/pyproject.toml"
if command -v flock >/dev/null; then flock 9; fi

make_venv
wanted="$(fingerprint)"
for stamp in "$venv/.gpufeed-installed-${extra:-plain}" "$venv/.gpufeed-installed-dev"; do
  # The dev extra has everything that the plain installation has.
  [[ "$stamp" == *-dev && -n "$extra" && "$extra" != dev ]] && continue
  [[ -f "$stamp" && "$(<"$stamp")" == "$wanted" ]] && exit 0
done
install
printf '%s\n' "$wanted" >"$venv/.gpufeed-installed-${extra:-plain}"
