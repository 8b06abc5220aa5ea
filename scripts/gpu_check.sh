#!/usr/bin/env bash
# The device check: everything that only a machine with a CUDA device can show, in one command.
#
#   bash scripts/gpu_check.sh [OUT_FOLDER]     default: gpu_check
#
# Uses the Python that has gpufeed's dependencies: $PYTHON, else .venv/bin/python, else python3. Installs nothing.
# Writes environment.txt, tests.txt; compare-*.json and compare-*.txt for the training and the eval transform and, with
# the contenders that need a GPU and a report, for a training step; what tune chose and what doctor says.
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
out=${1:-gpu_check}
mkdir -p "$out"
out=$(cd "$out" && pwd)
cd "$root"
python=${PYTHON:-}
if [ -z "$python" ]; then
  if [ -x .venv/bin/python ]; then python=.venv/bin/python; else python=python3; fi
fi
export PYTHONPATH="$root${PYTHONPATH:+:$PYTHONPATH}"

"$python" - <<'PY' | tee "$out/environment.txt"
import sys
import nvidia.dali, torch, torchvision
if not torch.cuda.is_available():
    sys.exit("gpu_check: torch finds no CUDA device; this check is for a machine that has one")
print(f"Python {sys.version.split()[0]}, torch {torch.__version__}, torchvision {torchvision.__version__}, DALI {nvidia.dali.__version__}")
print(torch.cuda.get_device_name(), f"{torch.cuda.get_device_properties(0).total_memory / 2**30:.0f} GiB")
PY

status=0
GPUFEED_REQUIRE_GPU=1 "$python" -m pytest tests/gpu tests/pixels tests/test_device_graph.py -q -p no:cacheprovider 2>&1 | tee "$out/tests.txt" || status=$?
for transform in train eval; do
  "$python" -m gpufeed compare --transform "$transform" --batch-size 256 --budget 90 --device cuda \
    --json "$out/compare-$transform.json" 2>&1 | tee "$out/compare-$transform.txt" || status=$?
done
"$python" -m gpufeed compare --step resnet18 --batch-size 256 --budget 180 --device cuda \
  --contenders torch-tuned,torch-cuda-decode,torch-uint8,dali-proxy,gpufeed \
  --json "$out/compare-step.json" --html "$out/compare-step.html" --png "$out/compare-step.png" \
  2>&1 | tee "$out/compare-step.txt" || status=$?
"$python" -m gpufeed tune --device cuda --batch-size 256 --budget 180 --out "$out/gpufeed.toml" --chart "$out/tune.png" \
  2>&1 | tee "$out/tune.txt" || status=$?
"$python" -m gpufeed doctor 2>&1 | tee "$out/doctor.txt" || true # its exit code is 1 where it finds something
exit "$status"
