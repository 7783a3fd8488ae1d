#!/bin/bash
#SBATCH --time=06:00:00
#SBATCH --mem=16G
#SBATCH --cpus-per-task=4

# mriqc: image quality metrics of one session with MRIQC.
# Arguments: subject, session (empty for a dataset without sessions).
# Completion markers: "anat/*_T1w.json", "func/*_bold.json", ... (the metrics of each image).
set -euo pipefail

subject=${1:?usage: $0 SUBJECT SESSION}
session=${2-}

IMAGE=${SNBB_MRIQC_IMAGE:-/opt/containers/mriqc.sif}
# Downloaded templates, for nodes without network. If empty, the image's templates and the network are used.
TEMPLATEFLOW=${SNBB_TEMPLATEFLOW_HOME-}
BIDS_ROOT=${SNBB_BIDS_ROOT:-/data/snbb/bids}
DERIVATIVES_ROOT=${SNBB_DERIVATIVES_ROOT:-/data/snbb/derivatives}
SCRATCH=${SNBB_SCRATCH:-${SLURM_TMPDIR:-${TMPDIR:-/tmp}}}
THREADS=${SLURM_CPUS_PER_TASK:-4}
MEMORY_GB=$((${SLURM_MEM_PER_NODE:-16384} / 1024))

part=$subject${session:+/$session}
name=$subject${session:+_$session}
output=${SNBB_OUTPUT_DIR:-$DERIVATIVES_ROOT/mriqc/$part}
root=${output%"/$part"}
mkdir -p "$root"
work=$(mktemp -d "$SCRATCH/snbb_mriqc_${subject}_XXXXXX")
stage=$root/.$name.tmp
trap 'rm -rf "$work" "$stage"' EXIT
shopt -s nullglob

binds=$BIDS_ROOT:$BIDS_ROOT:ro,$work
[ -z "$TEMPLATEFLOW" ] || { binds=$binds,$TEMPLATEFLOW; export APPTAINERENV_TEMPLATEFLOW_HOME=$TEMPLATEFLOW; }
# Metrics are not sent to MRIQC's web service (--no-sub).
apptainer run --cleanenv --bind "$binds" "$IMAGE" \
  "$BIDS_ROOT" "$work/out" participant \
  --participant-label "${subject#sub-}" ${session:+--session-id "${session#ses-}"} \
  --nprocs "$THREADS" --omp-nthreads "$THREADS" --mem-gb "$MEMORY_GB" \
  --no-sub --notrack --work-dir "$work/work"

crashes=("$work"/out/logs/crash*)
[ ${#crashes[@]} -eq 0 ] || { cat -- "${crashes[@]}" >&2; echo "MRIQC left ${#crashes[@]} crash files" >&2; exit 1; }
[ -d "$work/out/$part" ] || { echo "MRIQC made no $part" >&2; exit 1; }

# Reports first. Then the directory appears complete, by one rename, because the markers match its metrics.
for report in "$work/out/$name"_*.html; do
  cp "$report" "$root/.${report##*/}.tmp"
  mv -f "$root/.${report##*/}.tmp" "$root/${report##*/}"
done
rm -rf "$stage"
cp -R "$work/out/$part" "$stage"
# Figures of all sessions are in one directory beside the sessions.
if [ -n "$session" ] && [ -d "$work/out/$subject/figures" ]; then
  mkdir -p "$root/$subject"
  cp -R "$work/out/$subject/figures" "$root/$subject/"
fi
mkdir -p "$(dirname "$output")"
rm -rf "$output"
mv -T "$stage" "$output"
