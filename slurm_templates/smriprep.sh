#!/bin/bash
#SBATCH --time=24:00:00
#SBATCH --mem=16G
#SBATCH --cpus-per-task=8

# smriprep: preprocesses the anatomical images of one subject with sMRIPrep (0.8 or later).
# Argument: subject (scope: subject; all sessions form one anatomical reference).
# Its output directory contains "unfinished" while the job runs and after a failure; otherwise, sMRIPrep's own files count.
set -euo pipefail

subject=${1:?usage: $0 SUBJECT}

IMAGE=${SNBB_SMRIPREP_IMAGE:-/opt/containers/smriprep.sif}
FS_LICENSE=${SNBB_FS_LICENSE:-/opt/freesurfer/license.txt}
OUTPUT_SPACES=${SNBB_SMRIPREP_SPACES:-MNI152NLin2009cAsym}
# Downloaded templates, for nodes without network. If empty, the image's templates and the network are used.
TEMPLATEFLOW=${SNBB_TEMPLATEFLOW_HOME-}
BIDS_ROOT=${SNBB_BIDS_ROOT:-/data/snbb/bids}
DERIVATIVES_ROOT=${SNBB_DERIVATIVES_ROOT:-/data/snbb/derivatives}
SCRATCH=${SNBB_SCRATCH:-${SLURM_TMPDIR:-${TMPDIR:-/tmp}}}
THREADS=${SLURM_CPUS_PER_TASK:-8}
MEMORY_GB=$((${SLURM_MEM_PER_NODE:-16384} / 1024))
[ -f "$FS_LICENSE" ] || { echo "no FreeSurfer license $FS_LICENSE: get a free one and set SNBB_FS_LICENSE" >&2; exit 1; }

output=${SNBB_OUTPUT_DIR:-$DERIVATIVES_ROOT/smriprep/$subject}
root=${output%"/$subject"}
# sMRIPrep creates smriprep/ in its output directory.
[ "${root##*/}" = smriprep ] || { echo "output_dir must end in smriprep, not ${root##*/}" >&2; exit 1; }
parent=${root%/*}
subjects_dir=$root/sourcedata/freesurfer
mkdir -p "$output" "$subjects_dir"
work=$(mktemp -d "$SCRATCH/snbb_smriprep_${subject}_XXXXXX")
trap 'rm -rf "$work"' EXIT
shopt -s nullglob

# Removed after success. Results of an earlier attempt must not count for this one.
touch "$output/unfinished"
rm -f "$output"/log/*/crash* "$root/$subject.html"

binds=$BIDS_ROOT:$BIDS_ROOT:ro,$parent,$work,$FS_LICENSE
[ -z "$TEMPLATEFLOW" ] || { binds=$binds,$TEMPLATEFLOW; export APPTAINERENV_TEMPLATEFLOW_HOME=$TEMPLATEFLOW; }
read -ra spaces <<<"$OUTPUT_SPACES"
apptainer run --cleanenv --bind "$binds" "$IMAGE" \
  "$BIDS_ROOT" "$parent" participant --participant-label "${subject#sub-}" \
  --output-spaces "${spaces[@]}" --fs-license-file "$FS_LICENSE" --fs-subjects-dir "$subjects_dir" \
  --nprocs "$THREADS" --omp-nthreads "$THREADS" --mem-gb "$MEMORY_GB" \
  --notrack --stop-on-first-crash --work-dir "$work"

[ -s "$root/$subject.html" ] || { echo "sMRIPrep left no report $root/$subject.html" >&2; exit 1; }
crashes=("$output"/log/*/crash*)
[ ${#crashes[@]} -eq 0 ] || { echo "sMRIPrep left ${crashes[*]}" >&2; exit 1; }
unlink "$output/unfinished"
