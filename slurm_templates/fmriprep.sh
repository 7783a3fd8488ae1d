#!/bin/bash
#SBATCH --time=24:00:00
#SBATCH --mem=32G
#SBATCH --cpus-per-task=8

# fmriprep: preprocesses all functional images of one subject with fMRIPrep.
# Argument: subject (scope: subject; its anatomical reference is shared by all sessions).
# Completion marker: done
set -euo pipefail

subject=${1:?usage: $0 SUBJECT}

IMAGE=${SNBB_FMRIPREP_IMAGE:-/opt/containers/fmriprep.sif}
FS_LICENSE=${SNBB_FS_LICENSE:-/opt/freesurfer/license.txt}
OUTPUT_SPACES=${SNBB_FMRIPREP_SPACES:-MNI152NLin2009cAsym:res-2}
BIDS_ROOT=${SNBB_BIDS_ROOT:-/data/snbb/bids}
DERIVATIVES_ROOT=${SNBB_DERIVATIVES_ROOT:-/data/snbb/derivatives}
SCRATCH=${SNBB_SCRATCH:-${SLURM_TMPDIR:-${TMPDIR:-/tmp}}}
THREADS=${SLURM_CPUS_PER_TASK:-8}
MEMORY_MB=${SLURM_MEM_PER_NODE:-32000}

output=${SNBB_OUTPUT_DIR:-$DERIVATIVES_ROOT/fmriprep/$subject}
root=${output%"/$subject"}
mkdir -p "$root"
rm -f "$output/done"
work=$(mktemp -d "$SCRATCH/snbb_fmriprep_${subject}_XXXXXX")
trap 'rm -rf "$work"' EXIT

read -ra spaces <<<"$OUTPUT_SPACES"
apptainer run --cleanenv --bind "$BIDS_ROOT","$root","$work","$FS_LICENSE" "$IMAGE" \
  "$BIDS_ROOT" "$root" participant --participant-label "${subject#sub-}" \
  --output-spaces "${spaces[@]}" --fs-license-file "$FS_LICENSE" \
  --nprocs "$THREADS" --omp-nthreads "$THREADS" --mem-mb "$MEMORY_MB" \
  --skip-bids-validation --notrack --stop-on-first-crash --work-dir "$work"

# fMRIPrep ends well only if its report was written; this says so inside the subject's directory.
[ -s "$root/$subject.html" ] || { echo "fMRIPrep left no report $root/$subject.html" >&2; exit 1; }
touch "$output/done"
