#!/bin/bash
#SBATCH --time=12:00:00
#SBATCH --mem=24G
#SBATCH --cpus-per-task=4

# xcp_d: denoises fMRIPrep's results of one subject with XCP-D (0.11 or later) and creates connectivity matrices.
# Argument: subject.
# Its output directory contains "unfinished" while the job runs and after a failure; otherwise, XCP-D's own files count.
set -euo pipefail

subject=${1:?usage: $0 SUBJECT}

IMAGE=${SNBB_XCP_D_IMAGE:-/opt/containers/xcp_d.sif}
FS_LICENSE=${SNBB_FS_LICENSE:-/opt/freesurfer/license.txt}
# The set of parameters (see XCP-D's "processing modes"), and the format of fMRIPrep's results: nifti or cifti.
MODE=${SNBB_XCP_D_MODE:-linc}
FILE_FORMAT=${SNBB_XCP_D_FORMAT:-nifti}
# Downloaded templates, for nodes without network. If empty, the image's templates and the network are used.
TEMPLATEFLOW=${SNBB_TEMPLATEFLOW_HOME-}
DERIVATIVES_ROOT=${SNBB_DERIVATIVES_ROOT:-/data/snbb/derivatives}
FMRIPREP_DIR=${SNBB_FMRIPREP_DIR:-$DERIVATIVES_ROOT/fmriprep}
SCRATCH=${SNBB_SCRATCH:-${SLURM_TMPDIR:-${TMPDIR:-/tmp}}}
THREADS=${SLURM_CPUS_PER_TASK:-4}
MEMORY_MB=${SLURM_MEM_PER_NODE:-24000}
[ -f "$FS_LICENSE" ] || { echo "no FreeSurfer license $FS_LICENSE: get a free one and set SNBB_FS_LICENSE" >&2; exit 1; }

output=${SNBB_OUTPUT_DIR:-$DERIVATIVES_ROOT/xcp_d/$subject}
root=${output%"/$subject"}
mkdir -p "$output"
work=$(mktemp -d "$SCRATCH/snbb_xcp_d_${subject}_XXXXXX")
trap 'rm -rf "$work"' EXIT
shopt -s nullglob

# Removed after success. Results of an earlier attempt must not count for this one.
touch "$output/unfinished"
rm -f "$output"/log/*/crash* "$root/$subject.html" "$root/${subject}_"*.html

binds=$FMRIPREP_DIR:$FMRIPREP_DIR:ro,$root,$work,$FS_LICENSE
[ -z "$TEMPLATEFLOW" ] || { binds=$binds,$TEMPLATEFLOW; export APPTAINERENV_TEMPLATEFLOW_HOME=$TEMPLATEFLOW; }
apptainer run --cleanenv --bind "$binds" "$IMAGE" \
  "$FMRIPREP_DIR" "$root" participant --participant-label "${subject#sub-}" \
  --mode "$MODE" --input-type fmriprep --file-format "$FILE_FORMAT" \
  --report-output-level root --fs-license-file "$FS_LICENSE" \
  --nprocs "$THREADS" --omp-nthreads "$THREADS" --mem-mb "$MEMORY_MB" \
  --notrack --stop-on-first-crash --work-dir "$work"

# One report, or one per session if there are many.
reports=("$root/$subject.html" "$root/${subject}_"*.html)
[ -s "${reports[-1]}" ] || { echo "XCP-D left no report $root/$subject.html" >&2; exit 1; }
crashes=("$output"/log/*/crash*)
[ ${#crashes[@]} -eq 0 ] || { echo "XCP-D left ${crashes[*]}" >&2; exit 1; }
unlink "$output/unfinished"
