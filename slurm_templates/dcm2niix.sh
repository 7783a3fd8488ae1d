#!/bin/bash
#SBATCH --time=01:00:00
#SBATCH --mem=4G
#SBATCH --cpus-per-task=2

# dcm2niix: converts one session's DICOM files to NIfTI, named by series number and protocol.
# A plain conversion; heudiconv.sh and dcm2bids.sh convert to BIDS.
# Arguments: subject, session (empty for a dataset without sessions), DICOM directory.
# Completion marker: "*.nii.gz"
set -euo pipefail

subject=${1:?usage: $0 SUBJECT SESSION DICOM_PATH}
session=${2-}
dicom_path=${3:-${SNBB_DICOM_PATH:?no DICOM path given}}

# Set it to an empty text if dcm2niix is installed on the nodes.
IMAGE=${SNBB_DCM2NIIX_IMAGE-/opt/containers/dcm2niix.sif}
DERIVATIVES_ROOT=${SNBB_DERIVATIVES_ROOT:-/data/snbb/derivatives}
SCRATCH=${SNBB_SCRATCH:-${SLURM_TMPDIR:-${TMPDIR:-/tmp}}}

part=$subject${session:+/$session}
name=$subject${session:+_$session}
output=${SNBB_OUTPUT_DIR:-$DERIVATIVES_ROOT/nifti/$part}
root=${output%"/$part"}
mkdir -p "$root"
work=$(mktemp -d "$SCRATCH/snbb_dcm2niix_${subject}_XXXXXX")
stage=$root/.$name.tmp
trap 'rm -rf "$work" "$stage"' EXIT
shopt -s nullglob

dcm2niix=(dcm2niix)
[ -z "$IMAGE" ] || dcm2niix=(apptainer exec --cleanenv --bind "$dicom_path:$dicom_path:ro,$work" "$IMAGE" dcm2niix)
"${dcm2niix[@]}" -b y -ba y -z y -f "${name}_series-%s_%p" -o "$work" "$dicom_path"

images=("$work"/*.nii.gz)
[ ${#images[@]} -gt 0 ] || { echo "dcm2niix made no images from $dicom_path" >&2; exit 1; }

# The directory appears complete, by one rename, because the marker matches its images.
rm -rf "$stage"
mkdir "$stage"
cp "$work"/* "$stage/"
mkdir -p "$(dirname "$output")"
rm -rf "$output"
mv -T "$stage" "$output"
