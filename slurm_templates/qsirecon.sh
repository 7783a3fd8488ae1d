#!/bin/bash
#SBATCH --time=24:00:00
#SBATCH --mem=32G
#SBATCH --cpus-per-task=8

# qsirecon: a reconstruction workflow on one session's QSIPrep result, with QSIRecon (1.0 or later).
# Arguments: subject, session (empty for a dataset without sessions).
# Its output directory contains "unfinished" while the job runs and after a failure; otherwise, QSIRecon's own files count.
set -euo pipefail

subject=${1:?usage: $0 SUBJECT SESSION}
session=${2-}

IMAGE=${SNBB_QSIRECON_IMAGE:-/opt/containers/qsirecon.sif}
# One of QSIRecon's workflows, or your own file.
SPEC=${SNBB_QSIRECON_SPEC:-dsi_studio_gqi}
FS_LICENSE=${SNBB_FS_LICENSE:-/opt/freesurfer/license.txt}
DERIVATIVES_ROOT=${SNBB_DERIVATIVES_ROOT:-/data/snbb/derivatives}
QSIPREP_DIR=${SNBB_QSIPREP_DIR:-$DERIVATIVES_ROOT/qsiprep}
# FreeSurfer's results, for workflows that need them (names with "hsvs"); empty for none.
SUBJECTS_DIR=${SNBB_FREESURFER_DIR-}
SCRATCH=${SNBB_SCRATCH:-${SLURM_TMPDIR:-${TMPDIR:-/tmp}}}
THREADS=${SLURM_CPUS_PER_TASK:-8}
MEMORY_MB=${SLURM_MEM_PER_NODE:-32000}
[ -f "$FS_LICENSE" ] || { echo "no FreeSurfer license $FS_LICENSE: get a free one and set SNBB_FS_LICENSE" >&2; exit 1; }

part=$subject${session:+/$session}
name=$subject${session:+_$session}
output=${SNBB_OUTPUT_DIR:-$DERIVATIVES_ROOT/qsirecon/$part}
root=${output%"/$part"}
mkdir -p "$output"
work=$(mktemp -d "$SCRATCH/snbb_qsirecon_${subject}_XXXXXX")
trap 'rm -rf "$work"' EXIT
shopt -s nullglob

# Removed after success. Results of an earlier attempt must not count for this one.
touch "$output/unfinished"
rm -f "$root"/derivatives/*/"$name.html"

binds=$QSIPREP_DIR:$QSIPREP_DIR:ro,$root,$work,$FS_LICENSE${SUBJECTS_DIR:+,$SUBJECTS_DIR}
[ ! -f "$SPEC" ] || binds=$binds,$SPEC
apptainer run --cleanenv --bind "$binds" "$IMAGE" \
  "$QSIPREP_DIR" "$root" participant \
  --participant-label "${subject#sub-}" ${session:+--session-id "${session#ses-}"} \
  --input-type qsiprep --recon-spec "$SPEC" ${SUBJECTS_DIR:+--fs-subjects-dir "$SUBJECTS_DIR"} \
  --fs-license-file "$FS_LICENSE" --report-output-level root \
  --nprocs "$THREADS" --omp-nthreads "$THREADS" --mem-mb "$MEMORY_MB" \
  --notrack --stop-on-first-crash --work-dir "$work"

# A report per reconstruction method: derivatives/qsirecon-<suffix>/<sub>_<ses>.html.
reports=("$root"/derivatives/*/"$name.html")
[ ${#reports[@]} -gt 0 ] || { echo "QSIRecon left no report $root/derivatives/*/$name.html" >&2; exit 1; }
unlink "$output/unfinished"
