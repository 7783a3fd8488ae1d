#!/bin/bash
#SBATCH --time=06:00:00
#SBATCH --mem=8G
#SBATCH --cpus-per-task=2

# cat12: segmentation, surfaces and ROI values of one session's T1w images with CAT12 (standalone).
# Arguments: subject, session (empty for a dataset without sessions).
# Completion markers: report/cat_*.xml, mri/mwp1*.nii, ...
set -euo pipefail

subject=${1:?usage: $0 SUBJECT SESSION}
session=${2-}

# An image that runs cat_standalone.sh, such as docker://jhuguetn/cat12.
IMAGE=${SNBB_CAT12_IMAGE:-/opt/containers/cat12.sif}
# The batch file inside the image, or your own file, which must then be bound.
BATCH=${SNBB_CAT12_BATCH:-/opt/spm/standalone/cat_standalone_segment.m}
BIDS_ROOT=${SNBB_BIDS_ROOT:-/data/snbb/bids}
DERIVATIVES_ROOT=${SNBB_DERIVATIVES_ROOT:-/data/snbb/derivatives}
SCRATCH=${SNBB_SCRATCH:-${SLURM_TMPDIR:-${TMPDIR:-/tmp}}}

part=$subject${session:+/$session}
name=$subject${session:+_$session}
output=${SNBB_OUTPUT_DIR:-$DERIVATIVES_ROOT/cat12/$part}
root=${output%"/$part"}
mkdir -p "$root"
work=$(mktemp -d "$SCRATCH/snbb_cat12_${subject}_XXXXXX")
stage=$root/.$name.tmp
trap 'rm -rf "$work" "$stage"' EXIT
shopt -s nullglob

found=0
for image in "$BIDS_ROOT/$part"/anat/*_T1w.nii.gz; do
  file=$(basename "$image" .nii.gz)
  case $file in *defaced*) continue ;; esac
  found=$((found + 1))
  gzip -dc "$image" >"$work/$file.nii"

  # CAT12 writes to the directory of its input, and its path must not contain spaces: the directory is bound as /data.
  apptainer run --cleanenv --bind "$work:/data" --env MCR_CACHE_ROOT=/data/.mcr "$IMAGE" \
    -b "$BATCH" "/data/$file.nii"

  # Its script always exits with 0 (cat_standalone.sh).
  if [ ! -s "$work/report/cat_$file.xml" ] || [ -e "$work/err" ]; then
    cat "$work"/report/catlog_"$file".txt >&2 || true
    echo "CAT12 failed for $image" >&2
    exit 1
  fi
  rm "$work/$file.nii"
done
[ "$found" -gt 0 ] || { echo "no T1w image in $BIDS_ROOT/$part/anat" >&2; exit 1; }

# The directory appears complete, by one rename.
rm -rf "$stage"
mkdir "$stage"
cp -R "$work"/* "$stage/"
mkdir -p "$(dirname "$output")"
rm -rf "$output"
mv -T "$stage" "$output"
