#!/bin/bash
#SBATCH --time=06:00:00
#SBATCH --mem=16G
#SBATCH --cpus-per-task=4

# mriqc: image quality metrics of one session with MRIQC.
# Arguments: subject, session (empty for a dataset without sessions).
# Completion marker: "*/*.json" (the metrics of each image).
set -euo pipefail

subject=${1:?usage: $0 SUBJECT SESSION}
session=${2-}

IMAGE=${SNBB_MRIQC_IMAGE:-/opt/containers/mriqc.sif}
BIDS_ROOT=${SNBB_BIDS_ROOT:-/data/snbb/bids}
DERIVATIVES_ROOT=${SNBB_DERIVATIVES_ROOT:-/data/snbb/derivatives}
SCRATCH=${SNBB_SCRATCH:-${SLURM_TMPDIR:-${TMPDIR:-/tmp}}}
THREADS=${SLURM_CPUS_PER_TASK:-4}
MEMORY_GB=$((${SLURM_MEM_PER_NODE:-16384} / 1024))

part=$subject${session:+/$session}
output=${SNBB_OUTPUT_DIR:-$DERIVATIVES_ROOT/mriqc/$part}
root=${output%"/$part"}
mkdir -p "$root"
work=$(mktemp -d "$SCRATCH/snbb_mriqc_${subject}_XXXXXX")
trap 'rm -rf "$work"' EXIT

# Metrics are not sent to MRIQC's web service (--no-sub).
apptainer run --cleanenv --bind "$BIDS_ROOT","$root","$work" "$IMAGE" \
  "$BIDS_ROOT" "$work/out" participant \
  --participant-label "${subject#sub-}" ${session:+--session-id "${session#ses-}"} \
  --nprocs "$THREADS" --omp-nthreads "$THREADS" --mem-gb "$MEMORY_GB" \
  --no-sub --notrack --work-dir "$work/work"

[ -d "$work/out/$part" ] || { echo "MRIQC made no $part" >&2; exit 1; }
# Reports and figures first, the metrics last and whole: they are what the marker looks for.
cd "$work/out"
cp -- *.html "$root/"
mkdir -p "$output"
cd "$work/out/$part"
find . -type f ! -name '*.json' -printf '%P\n' | while IFS= read -r file; do
  mkdir -p "$output/$(dirname "$file")"
  cp "$file" "$output/$file"
done
find . -type f -name '*.json' -printf '%P\n' | while IFS= read -r file; do
  mkdir -p "$output/$(dirname "$file")"
  cp "$file" "$output/$(dirname "$file")/.$(basename "$file").tmp"
  mv -f "$output/$(dirname "$file")/.$(basename "$file").tmp" "$output/$file"
done
