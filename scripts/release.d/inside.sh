#!/usr/bin/env bash
# The part of scripts/release-check that runs in the bare system, with the packages in /given.
set -euo pipefail

main() {
  mount -t proc proc /proc
  cd /given
  if command -v cargo >/dev/null; then
    echo "cargo is installed: this is not a bare system" >&2
    exit 1
  fi
  echo "=== $(sed -n 's/^PRETTY_NAME=//p' /etc/os-release), $(ldd --version | head -n 1), $(python3 --version), no cargo"

  echo "=== wheel: pip install"
  python3 -m venv /venv
  /venv/bin/pip install --quiet --disable-pip-version-check --no-index ./snbb_scheduler-*.whl
  /venv/bin/snbb-scheduler --version
  if /venv/bin/snbb-scheduler --lock-always-granted-for-tests --version 2>/dev/null; then
    echo "the program accepts a test option: it is not a release build" >&2
    exit 1
  fi
  time_help /venv/bin/snbb-scheduler
  [ ! -d wheels ] || check_tables
  [ ! -d earlier ] || check_takeover

  echo "=== Debian package: apt install"
  # There is no terminal, and the user _apt may not read the packages.
  local apt=(env DEBIAN_FRONTEND=noninteractive apt-get --yes -qq -o Dpkg::Use-Pty=0 -o APT::Sandbox::User=root)
  "${apt[@]}" install ./*.deb >/dev/null
  /usr/bin/snbb-scheduler --version
  dpkg --listfiles snbb-scheduler | grep -E '/man1/.|completions/.' | sed 's/^/  /'
  "${apt[@]}" remove snbb-scheduler >/dev/null
  if [ -e /usr/bin/snbb-scheduler ]; then
    echo "the Debian package left the program behind" >&2
    exit 1
  fi

  echo "=== tar.gz"
  tar -xf ./snbb-scheduler-*-x86_64-linux.tar.gz -C /opt --strip-components 1
  /opt/bin/snbb-scheduler --version

  echo "=== a first study with the wheel"
  first_study /venv/bin/snbb-scheduler
}

# The Python package with each library that it supports.
check_tables() {
  local set
  for set in pandas1:pandas pandas2:pandas polars:polars; do
    python3 -m venv "/${set%:*}"
    "/${set%:*}/bin/pip" install --quiet --disable-pip-version-check --no-index --find-links "wheels/${set%:*}" \
      --find-links /given "snbb-scheduler[${set#*:}]"
    echo "=== wheel with $("/${set%:*}/bin/pip" list 2>/dev/null | awk '/^(pandas|polars|pyarrow|numpy) / { printf "%s %s  ", $1, $2 }')"
    SNBB_TEST_ENGINES=${set#*:} "/${set%:*}/bin/python" test_helper.py 2>&1 | tail -n 4
  done
}

# The wheel replaces the Python program, leaves nothing behind when it is removed, and makes way for it again.
check_takeover() {
  local mode bin install
  for mode in '' --editable; do
    bin=/earlier$mode/bin
    python3 -m venv "/earlier$mode"
    install=("$bin/pip" install --quiet --disable-pip-version-check --no-index --find-links wheels/pandas2 --find-links wheels/earlier)
    "${install[@]}" pandas pyarrow click pyyaml
    # Its other dependencies (plots, statistics) are not imported by its commands.
    # shellcheck disable=SC2086
    "${install[@]}" --no-deps $mode ./earlier
    echo "=== wheel over the Python program $("$bin/pip" list 2>/dev/null | awk '/^snbb/ { print $2, $3 }')"
    "$bin/snbb-scheduler" --help | grep -q 'rule-based scheduler'

    "${install[@]}" --upgrade ./snbb_scheduler-*.whl
    "$bin/snbb-scheduler" --version
    "$bin/python" -m snbb_scheduler --version
    SNBB_TEST_ENGINES=pandas "$bin/python" test_helper.py 2>&1 | tail -n 1
    "$bin/python" -c 'from snbb_scheduler.freesurfer import main'
    absent "$bin" snbb_scheduler.cli

    "$bin/pip" uninstall --quiet --yes snbb-scheduler
    absent "$bin" snbb_scheduler
    find "/earlier$mode" -name '*snbb*' | grep . >&2 && exit 1
    "$bin/pip" check
    "$bin/python" -c 'import pandas'

    # shellcheck disable=SC2086
    "${install[@]}" --no-deps $mode ./earlier
    "$bin/snbb-scheduler" --help | grep -q 'rule-based scheduler'
  done
}

# Fails if a Python package or module can be imported.
absent() {
  if "$1/python" -c "import $2" 2>/dev/null; then
    echo "$2 is still installed" >&2
    exit 1
  fi
}

# The first commands of a new user, each of which must succeed.
first_study() {
  local program=$1
  mkdir -p /study/dicom/sub-01/ses-01 /study/bids /study/derivatives
  touch /study/dicom/sub-01/ses-01/0001.dcm
  cd /study
  export SNBB_CONFIG=/study/config.yaml
  "$program" init --yes --dicom-root dicom --bids-root bids --derivatives-root derivatives
  "$program" check
  "$program" run --dry-run
  unset SNBB_CONFIG
  cd /given
}

time_help() {
  python3 - "$1" <<'PYTHON'
import subprocess, sys, time
times = []
for _ in range(50):
    start = time.perf_counter()
    subprocess.run([sys.argv[1], "--help"], stdout=subprocess.DEVNULL, check=True)
    times.append((time.perf_counter() - start) * 1000)
times.sort()
print(f"--help: median {times[25]:.1f} ms, best {times[0]:.1f} ms of 50 (including the start of the process)")
PYTHON
}

main "$@"
