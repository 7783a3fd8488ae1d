#!/bin/bash
#SBATCH --time=04:00:00
#SBATCH --mem=8G
#SBATCH --cpus-per-task=4

# dcm2bids: converts one session's DICOM files to BIDS with Dcm2Bids (3.0 or later).
# Arguments: subject, session (empty for a dataset without sessions), DICOM directory.
# CONFIG determines which series becomes which file; edit it for your site.
# Completion marker: "*_scans.tsv", BIDS's list of the session's images, which is written last.
set -euo pipefail

subject=${1:?usage: $0 SUBJECT SESSION DICOM_PATH}
session=${2-}
dicom_path=${3:-${SNBB_DICOM_PATH:?no DICOM path given}}

IMAGE=${SNBB_DCM2BIDS_IMAGE:-/opt/containers/dcm2bids.sif}
CONFIG=${SNBB_DCM2BIDS_CONFIG:-/opt/snbb/dcm2bids.json}
BIDS_ROOT=${SNBB_BIDS_ROOT:-/data/snbb/bids}
SCRATCH=${SNBB_SCRATCH:-${SLURM_TMPDIR:-${TMPDIR:-/tmp}}}
[ -f "$CONFIG" ] || { echo "no rules $CONFIG: write some for your scanner and set SNBB_DCM2BIDS_CONFIG" >&2; exit 1; }

part=$subject${session:+/$session}
name=$subject${session:+_$session}
output=${SNBB_OUTPUT_DIR:-$BIDS_ROOT/$part}
work=$(mktemp -d "$SCRATCH/snbb_dcm2bids_${subject}_XXXXXX")
trap 'rm -rf "$work"' EXIT

# A separate directory, because Dcm2Bids creates tmp_dcm2bids/ in its output directory.
mkdir "$work/bids"
apptainer exec --cleanenv --bind "$dicom_path:$dicom_path:ro,$work,$CONFIG" "$IMAGE" \
  dcm2bids --dicom_dir "$dicom_path" \
  --participant "${subject#sub-}" ${session:+--session "${session#ses-}"} \
  --config "$CONFIG" --output_dir "$work/bids" --auto_extract_entities --force_dcm2bids --clobber

# Dcm2Bids succeeds even if no series matches its configuration.
made=$work/bids/$part
images=
[ ! -d "$made" ] || images=$(find "$made" -mindepth 2 -name '*.nii.gz' -printf '%P\n' | sort)
[ -n "$images" ] || { echo "Dcm2Bids converted no series of $part: check $CONFIG and $dicom_path" >&2; exit 1; }
{ echo filename; echo "$images"; } >"$made/${name}_scans.tsv"

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

# Each file appears complete, by a rename; the list that the marker matches is published last.
publish() {
  local target=$output/$1 hidden
  mkdir -p "$(dirname "$target")"
  hidden=$(dirname "$target")/.$(basename "$target").tmp
  cp "$made/$1" "$hidden"
  mv -f "$hidden" "$target"
}
rm -f "$output/${name}_scans.tsv"
find "$made" -type f ! -name '*_scans.tsv' -printf '%P\n' >"$work/files"
while IFS= read -r file; do publish "$file"; done <"$work/files"
publish "${name}_scans.tsv"
