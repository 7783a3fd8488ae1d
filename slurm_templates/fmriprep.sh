#!/bin/bash
#SBATCH --time=24:00:00
#SBATCH --mem=32G
#SBATCH --cpus-per-task=8

# fmriprep: preprocesses all functional images of one subject with fMRIPrep (21.0 or later).
# Argument: subject (scope: subject; its anatomical reference is shared by all sessions).
# Its output directory contains "unfinished" while the job runs and after a failure; otherwise, fMRIPrep's own files count.
set -euo pipefail

subject=${1:?usage: $0 SUBJECT}

IMAGE=${SNBB_FMRIPREP_IMAGE:-/opt/containers/fmriprep.sif}
FS_LICENSE=${SNBB_FS_LICENSE:-/opt/freesurfer/license.txt}
OUTPUT_SPACES=${SNBB_FMRIPREP_SPACES:-MNI152NLin2009cAsym:res-2}
# Downloaded templates, for nodes without network. If empty, the image's templates and the network are used.
TEMPLATEFLOW=${SNBB_TEMPLATEFLOW_HOME-}
BIDS_ROOT=${SNBB_BIDS_ROOT:-/data/snbb/bids}
DERIVATIVES_ROOT=${SNBB_DERIVATIVES_ROOT:-/data/snbb/derivatives}
SCRATCH=${SNBB_SCRATCH:-${SLURM_TMPDIR:-${TMPDIR:-/tmp}}}
THREADS=${SLURM_CPUS_PER_TASK:-8}
MEMORY_MB=${SLURM_MEM_PER_NODE:-32000}
[ -f "$FS_LICENSE" ] || { echo "no FreeSurfer license $FS_LICENSE: get a free one and set SNBB_FS_LICENSE" >&2; exit 1; }

output=${SNBB_OUTPUT_DIR:-$DERIVATIVES_ROOT/fmriprep/$subject}
root=${output%"/$subject"}
mkdir -p "$output"
work=$(mktemp -d "$SCRATCH/snbb_fmriprep_${subject}_XXXXXX")
trap 'rm -rf "$work"' EXIT
shopt -s nullglob

# Removed after success. Results of an earlier attempt must not count for this one.
touch "$output/unfinished"
rm -f "$output"/log/*/crash* "$root/$subject.html" "$root/${subject}_"*.html

binds=$BIDS_ROOT:$BIDS_ROOT:ro,$root,$work,$FS_LICENSE
[ -z "$TEMPLATEFLOW" ] || { binds=$binds,$TEMPLATEFLOW; export APPTAINERENV_TEMPLATEFLOW_HOME=$TEMPLATEFLOW; }
read -ra spaces <<<"$OUTPUT_SPACES"
apptainer run --cleanenv --bind "$binds" "$IMAGE" \
  "$BIDS_ROOT" "$root" participant --participant-label "${subject#sub-}" \
  --output-spaces "${spaces[@]}" --fs-license-file "$FS_LICENSE" \
  --nprocs "$THREADS" --omp-nthreads "$THREADS" --mem-mb "$MEMORY_MB" \
  --skip-bids-validation --notrack --stop-on-first-crash --work-dir "$work"

# One report, or several if the subject has many sessions (sub-<label>_anat.html, ...).
reports=("$root/$subject.html" "$root/${subject}_"*.html)
[ -s "${reports[-1]}" ] || { echo "fMRIPrep left no report $root/$subject.html" >&2; exit 1; }
crashes=("$output"/log/*/crash*)
[ ${#crashes[@]} -eq 0 ] || { echo "fMRIPrep left ${crashes[*]}" >&2; exit 1; }
unlink "$output/unfinished"
