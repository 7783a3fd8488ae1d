#!/bin/bash
#SBATCH --time=01:00:00
#SBATCH --mem=8G
#SBATCH --cpus-per-task=4

# defacing: writes a defaced copy (acq-defaced) beside each T1w image, with PyDeface.
# Arguments: subject, session (empty for a dataset without sessions).
set -euo pipefail

subject=${1:?usage: $0 SUBJECT SESSION}
session=${2-}

IMAGE=${SNBB_PYDEFACE_IMAGE:-/opt/containers/pydeface.sif}
BIDS_ROOT=${SNBB_BIDS_ROOT:-/data/snbb/bids}
SCRATCH=${SNBB_SCRATCH:-${SLURM_TMPDIR:-${TMPDIR:-/tmp}}}

dir=$BIDS_ROOT/$subject${session:+/$session}/anat
prefix=$subject${session:+_$session}
work=$(mktemp -d "$SCRATCH/snbb_defacing_${subject}_XXXXXX")
trap 'rm -rf "$work"' EXIT
shopt -s nullglob

found=0
for source in "$dir"/"$prefix"*_T1w.nii.gz; do
  name=$(basename "$source" .nii.gz)
  case $name in
    *defaced*) continue ;;
    *_acq-*) target=${name/_acq-/_acq-defaced} ;;
    *) target=${prefix}_acq-defaced${name#"$prefix"} ;;
  esac
  found=$((found + 1))

  apptainer exec --cleanenv --bind "$dir","$work" "$IMAGE" \
    pydeface "$source" --outfile "$work/$target.nii.gz" --force

  # The image that the marker matches appears last and complete, by a rename.
  [ ! -e "$dir/$name.json" ] || cp "$dir/$name.json" "$dir/$target.json"
  cp "$work/$target.nii.gz" "$dir/.$target.nii.gz.tmp"
  mv -f "$dir/.$target.nii.gz.tmp" "$dir/$target.nii.gz"
done
[ "$found" -gt 0 ] || { echo "no T1w image below $dir" >&2; exit 1; }
