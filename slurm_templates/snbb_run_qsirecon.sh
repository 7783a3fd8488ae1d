#!/bin/bash
#SBATCH --time=12:00:00
#SBATCH --mem=32G
#SBATCH --cpus-per-task=8

# qsirecon: reconstruction workflows on one session's QSIPrep result, with QSIRecon (1.0 or later).
# Arguments: subject, session (empty for a dataset without sessions).
# SPEC should be the same file as `qsirecon_spec` in the configuration.
set -euo pipefail

subject=${1:?usage: $0 SUBJECT SESSION}
session=${2-}

IMAGE=${SNBB_QSIRECON_IMAGE:-/opt/containers/qsirecon.sif}
SPEC=${SNBB_QSIRECON_SPEC:-mrtrix_multishell_msmt_ACT-hsvs}
FS_LICENSE=${SNBB_FS_LICENSE:-/opt/freesurfer/license.txt}
DERIVATIVES_ROOT=${SNBB_DERIVATIVES_ROOT:-/data/snbb/derivatives}
QSIPREP_DIR=${SNBB_QSIPREP_DIR:-$DERIVATIVES_ROOT/qsiprep}
SUBJECTS_DIR=${SNBB_FREESURFER_DIR:-$DERIVATIVES_ROOT/freesurfer}
SCRATCH=${SNBB_SCRATCH:-${SLURM_TMPDIR:-${TMPDIR:-/tmp}}}
THREADS=${SLURM_CPUS_PER_TASK:-8}
MEMORY_MB=${SLURM_MEM_PER_NODE:-32000}

part=$subject${session:+/$session}
output=${SNBB_OUTPUT_DIR:-$DERIVATIVES_ROOT/qsirecon/$part}
root=${output%"/$part"}
mkdir -p "$root"
work=$(mktemp -d "$SCRATCH/snbb_qsirecon_${subject}_XXXXXX")
trap 'rm -rf "$work"' EXIT

binds=$QSIPREP_DIR,$SUBJECTS_DIR,$root,$work,$FS_LICENSE
# Your own workflow is a file; a name without a file is one of QSIRecon's.
[ ! -f "$SPEC" ] || binds=$binds,$SPEC

# Reports are written to the root of each workflow's derivatives, where the check expects <sub>_<ses>.html.
apptainer run --cleanenv --bind "$binds" "$IMAGE" \
  "$QSIPREP_DIR" "$root" participant \
  --participant-label "${subject#sub-}" ${session:+--session-id "${session#ses-}"} \
  --input-type qsiprep --recon-spec "$SPEC" --fs-subjects-dir "$SUBJECTS_DIR" \
  --fs-license-file "$FS_LICENSE" --report-output-level root \
  --nprocs "$THREADS" --omp-nthreads "$THREADS" --mem-mb "$MEMORY_MB" \
  --notrack --work-dir "$work"
