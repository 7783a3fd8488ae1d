#!/bin/bash
#SBATCH --time=24:00:00
#SBATCH --mem=32G
#SBATCH --cpus-per-task=8

# qsiprep: preprocesses one session's diffusion images with QSIPrep (1.0 or later).
# Arguments: subject, session (empty for a dataset without sessions).
# Its output directory contains "unfinished" while the job runs and after a failure; otherwise, QSIPrep's own files count.
set -euo pipefail

subject=${1:?usage: $0 SUBJECT SESSION}
session=${2-}

IMAGE=${SNBB_QSIPREP_IMAGE:-/opt/containers/qsiprep.sif}
FS_LICENSE=${SNBB_FS_LICENSE:-/opt/freesurfer/license.txt}
OUTPUT_RESOLUTION=${SNBB_QSIPREP_RESOLUTION:-2}
# Downloaded templates, for nodes without network. If empty, the image's templates and the network are used.
TEMPLATEFLOW=${SNBB_TEMPLATEFLOW_HOME-}
BIDS_ROOT=${SNBB_BIDS_ROOT:-/data/snbb/bids}
DERIVATIVES_ROOT=${SNBB_DERIVATIVES_ROOT:-/data/snbb/derivatives}
SCRATCH=${SNBB_SCRATCH:-${SLURM_TMPDIR:-${TMPDIR:-/tmp}}}
THREADS=${SLURM_CPUS_PER_TASK:-8}
MEMORY_MB=${SLURM_MEM_PER_NODE:-32000}
[ -f "$FS_LICENSE" ] || { echo "no FreeSurfer license $FS_LICENSE: get a free one and set SNBB_FS_LICENSE" >&2; exit 1; }

part=$subject${session:+/$session}
name=$subject${session:+_$session}
output=${SNBB_OUTPUT_DIR:-$DERIVATIVES_ROOT/qsiprep/$part}
root=${output%"/$part"}
mkdir -p "$output"
work=$(mktemp -d "$SCRATCH/snbb_qsiprep_${subject}_XXXXXX")
trap 'rm -rf "$work"' EXIT
shopt -s nullglob

# Removed after success. Results of an earlier attempt must not count for this one.
touch "$output/unfinished"
rm -f "$output"/log/*/crash* "$output/$name.html"

binds=$BIDS_ROOT:$BIDS_ROOT:ro,$root,$work,$FS_LICENSE
[ -z "$TEMPLATEFLOW" ] || { binds=$binds,$TEMPLATEFLOW; export APPTAINERENV_TEMPLATEFLOW_HOME=$TEMPLATEFLOW; }
# One anatomical reference per session, and the report in the session's directory: sessions are
# processed independently of each other, at the same time.
apptainer run --cleanenv --bind "$binds" "$IMAGE" \
  "$BIDS_ROOT" "$root" participant \
  --participant-label "${subject#sub-}" ${session:+--session-id "${session#ses-}"} \
  --subject-anatomical-reference sessionwise --report-output-level session \
  --output-resolution "$OUTPUT_RESOLUTION" --fs-license-file "$FS_LICENSE" \
  --nprocs "$THREADS" --omp-nthreads "$THREADS" --mem-mb "$MEMORY_MB" \
  --skip-bids-validation --notrack --stop-on-first-crash --work-dir "$work"

[ -s "$output/$name.html" ] || { echo "QSIPrep left no report $output/$name.html" >&2; exit 1; }
crashes=("$output"/log/*/crash*)
[ ${#crashes[@]} -eq 0 ] || { echo "QSIPrep left ${crashes[*]}" >&2; exit 1; }
unlink "$output/unfinished"
