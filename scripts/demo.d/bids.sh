#!/bin/bash
#SBATCH --time=00:10:00
#SBATCH --cpus-per-task=1

# Converts one session's DICOM files with dcm2niix and gives them BIDS names.
# Arguments: subject, session, DICOM directory.
set -euo pipefail

subject=$1 session=$2 dicom_path=$3
output=$SNBB_OUTPUT_DIR
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# convert SERIES BIDS_NAME: files appear complete, the image (which is the marker) after its sidecar.
convert() {
  local kind hidden
  dcm2niix -b y -ba y -z y -f "$1" -o "$work" "$dicom_path/$1"
  mkdir -p "$output/$(dirname "$2")"
  for kind in json bvec bval nii.gz; do
    # Only diffusion series have .bval and .bvec files.
    [ -e "$work/$1.$kind" ] || [ "$kind" = nii.gz ] || continue
    hidden=$output/$(dirname "$2")/.$(basename "$2").$kind.tmp
    cp "$work/$1.$kind" "$hidden"
    mv "$hidden" "$output/$2.$kind"
  done
}
convert t1 "anat/${subject}_${session}_T1w"
convert t2 "anat/${subject}_${session}_T2w"
convert dwi "dwi/${subject}_${session}_dwi"
