#!/bin/bash
#SBATCH --time=01:00:00
#SBATCH --mem=4G
#SBATCH --cpus-per-task=2

# dcm2niix: converts one session's DICOM files to NIfTI, named by series number and protocol.
# A plain conversion; for names that follow BIDS see snbb_run_bids.sh.
# Arguments: subject, session (empty for a dataset without sessions), DICOM directory.
# Completion marker: "*.nii.gz"
set -euo pipefail

subject=${1:?usage: $0 SUBJECT SESSION DICOM_PATH}
session=${2-}
dicom_path=${3:-${SNBB_DICOM_PATH:?no DICOM path given}}

# Empty: dcm2niix is installed on the nodes.
IMAGE=${SNBB_DCM2NIIX_IMAGE-/opt/containers/dcm2niix.sif}
DERIVATIVES_ROOT=${SNBB_DERIVATIVES_ROOT:-/data/snbb/derivatives}
SCRATCH=${SNBB_SCRATCH:-${SLURM_TMPDIR:-${TMPDIR:-/tmp}}}

output=${SNBB_OUTPUT_DIR:-$DERIVATIVES_ROOT/nifti/$subject${session:+/$session}}
work=$(mktemp -d "$SCRATCH/snbb_dcm2niix_${subject}_XXXXXX")
trap 'rm -rf "$work"' EXIT

dcm2niix=(dcm2niix)
binds=$dicom_path,$work
[ -z "$IMAGE" ] || dcm2niix=(apptainer exec --cleanenv --bind "$binds" "$IMAGE" dcm2niix)
"${dcm2niix[@]}" -b y -ba y -z y -f "${subject}${session:+_$session}_series-%s_%p" -o "$work" "$dicom_path"

# Files appear whole, and images last: they are what the marker looks for.
mkdir -p "$output"
cd "$work"
{
  find . -type f ! -name '*.nii.gz' -printf '%P\n'
  find . -type f -name '*.nii.gz' -printf '%P\n'
} | while IFS= read -r file; do
  cp "$file" "$output/.$file.tmp"
  mv -f "$output/.$file.tmp" "$output/$file"
done
