#!/bin/bash
#SBATCH --time=12:00:00
#SBATCH --mem=20G
#SBATCH --cpus-per-task=8

# qsiprep: preprocesses one session's diffusion images with QSIPrep (1.0 or later).
# Arguments: subject, session (empty for a dataset without sessions).
set -euo pipefail

subject=${1:?usage: $0 SUBJECT SESSION}
session=${2-}

IMAGE=${SNBB_QSIPREP_IMAGE:-/opt/containers/qsiprep.sif}
FS_LICENSE=${SNBB_FS_LICENSE:-/opt/freesurfer/license.txt}
OUTPUT_RESOLUTION=${SNBB_QSIPREP_RESOLUTION:-2}
BIDS_ROOT=${SNBB_BIDS_ROOT:-/data/snbb/bids}
DERIVATIVES_ROOT=${SNBB_DERIVATIVES_ROOT:-/data/snbb/derivatives}
SCRATCH=${SNBB_SCRATCH:-${SLURM_TMPDIR:-${TMPDIR:-/tmp}}}
THREADS=${SLURM_CPUS_PER_TASK:-8}
MEMORY_MB=${SLURM_MEM_PER_NODE:-20000}

part=$subject${session:+/$session}
output=${SNBB_OUTPUT_DIR:-$DERIVATIVES_ROOT/qsiprep/$part}
root=${output%"/$part"}
mkdir -p "$root"
work=$(mktemp -d "$SCRATCH/snbb_qsiprep_${subject}_XXXXXX")
trap 'rm -rf "$work"' EXIT

# Removes links of an earlier attempt; they are created again below after success.
shopt -s nullglob
rm -f "$output"/dwi/*_dwi_preproc.{nii.gz,bvec,bval}

# One anatomical reference per session, and the report in the session's directory: sessions are
# processed independently of each other, at the same time.
apptainer run --cleanenv --bind "$BIDS_ROOT","$root","$work","$FS_LICENSE" "$IMAGE" \
  "$BIDS_ROOT" "$root" participant \
  --participant-label "${subject#sub-}" ${session:+--session-id "${session#ses-}"} \
  --subject-anatomical-reference sessionwise --report-output-level session \
  --output-resolution "$OUTPUT_RESOLUTION" --fs-license-file "$FS_LICENSE" \
  --nprocs "$THREADS" --omp-nthreads "$THREADS" --mem-mb "$MEMORY_MB" \
  --skip-bids-validation --notrack --work-dir "$work"

# QSIPrep's results are named *_desc-preproc_dwi.*, but the built-in markers match *_dwi_preproc.*.
# Hard links with these names, created last, mark the results as complete.
for kind in bvec bval nii.gz; do
  for file in "$output"/dwi/*_desc-preproc_dwi."$kind"; do
    ln -f "$file" "${file%_desc-preproc_dwi."$kind"}_dwi_preproc.$kind"
  done
done
