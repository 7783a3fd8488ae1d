#!/bin/bash
#SBATCH --time=04:00:00
#SBATCH --mem=8G
#SBATCH --cpus-per-task=4

# bids: converts one session's DICOM files to BIDS with HeuDiConv.
# Arguments: subject, session (empty for a dataset without sessions), DICOM directory.
# The heuristic determines which series becomes which file; edit it for your site. The heuristic.py delivered with this
# script matches the built-in markers; copy it to the path in HEURISTIC.
set -euo pipefail

subject=${1:?usage: $0 SUBJECT SESSION DICOM_PATH}
session=${2-}
dicom_path=${3:-${SNBB_DICOM_PATH:?no DICOM path given}}

IMAGE=${SNBB_HEUDICONV_IMAGE:-/opt/containers/heudiconv.sif}
HEURISTIC=${SNBB_HEURISTIC:-/opt/snbb/heuristic.py}
BIDS_ROOT=${SNBB_BIDS_ROOT:-/data/snbb/bids}
SCRATCH=${SNBB_SCRATCH:-${SLURM_TMPDIR:-${TMPDIR:-/tmp}}}

part=$subject${session:+/$session}
name=$subject${session:+_$session}
work=$(mktemp -d "$SCRATCH/snbb_bids_${subject}_XXXXXX")
trap 'rm -rf "$work"' EXIT

# `notop`: no job writes the files in the dataset's top directory, which are shared by all jobs.
apptainer exec --cleanenv --bind "$dicom_path","$work","$HEURISTIC" "$IMAGE" \
  heudiconv --files "$dicom_path" --outdir "$work/bids" \
  --subjects "${subject#sub-}" ${session:+--ses "${session#ses-}"} \
  --heuristic "$HEURISTIC" --converter dcm2niix --bids notop --minmeta --overwrite

[ -d "$work/bids/$part" ] ||
  { echo "HeuDiConv converted no series of $part: check $HEURISTIC and $dicom_path" >&2; exit 1; }

# BIDS apps refuse a dataset without this file. It is written once and never replaced: `ln` fails if another job was
# faster.
describe() {
  local target=$BIDS_ROOT/dataset_description.json hidden=$BIDS_ROOT/.dataset_description.json.$name.tmp
  [ ! -L "$target" ] && [ ! -e "$target" ] || return 0
  mkdir -p "$BIDS_ROOT"
  echo '{"Name": "Dataset", "BIDSVersion": "1.10.0", "DatasetType": "raw"}' >"$hidden" &&
    { ln -T "$hidden" "$target" 2>/dev/null || mv -n "$hidden" "$target"; }
  rm -f "$hidden"
  [ -e "$target" ]
}
describe || echo "cannot write $BIDS_ROOT/dataset_description.json, which BIDS apps need" >&2

# Each file appears complete, by a rename; the images that the markers match are published last.
publish() {
  mkdir -p "$BIDS_ROOT/$part/$(dirname "$1")"
  local target=$BIDS_ROOT/$part/$1 hidden
  hidden=$(dirname "$target")/.$(basename "$target").tmp
  cp "$work/bids/$part/$1" "$hidden"
  chmod u+w "$hidden"
  mv -f "$hidden" "$target"
}
cd "$work/bids/$part"
{
  find . -type f ! -name '*.nii.gz' -printf '%P\n'
  find . -type f -name '*.nii.gz' -printf '%P\n'
} | while IFS= read -r file; do publish "$file"; done
