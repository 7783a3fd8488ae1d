#!/bin/bash
#SBATCH --time=00:30:00
#SBATCH --mem=2G
#SBATCH --cpus-per-task=1

# bids_post: makes a fieldmap for diffusion (fmap/*acq-dwi*_epi.nii.gz) from the session's PA series.
# Arguments: subject, session (empty for a dataset without sessions).
set -euo pipefail

subject=${1:?usage: $0 SUBJECT SESSION}
session=${2-}

IMAGE=${SNBB_MRTRIX_IMAGE:-/opt/containers/qsiprep.sif}
BIDS_ROOT=${SNBB_BIDS_ROOT:-/data/snbb/bids}
SCRATCH=${SNBB_SCRATCH:-${SLURM_TMPDIR:-${TMPDIR:-/tmp}}}

dir=$BIDS_ROOT/$subject${session:+/$session}
prefix=$subject${session:+_$session}
work=$(mktemp -d "$SCRATCH/snbb_bids_post_${subject}_XXXXXX")
trap 'rm -rf "$work"' EXIT
shopt -s nullglob

sources=("$dir"/dwi/"$prefix"*dir-PA*_dwi.nii.gz)
[ ${#sources[@]} -gt 0 ] || { echo "no dir-PA dwi below $dir/dwi" >&2; exit 1; }
targets=("$dir"/dwi/"$prefix"*dir-AP*_dwi.nii.gz)
mkdir -p "$dir/fmap"

run=0
for source in "${sources[@]}"; do
  run=$((run + 1))
  stem=${source%.nii.gz}
  name=${prefix}_acq-dwi_dir-PA
  [ ${#sources[@]} -eq 1 ] || name=${name}_run-$run
  image=$work/$name.nii.gz

  # A fieldmap needs images without diffusion weighting. At many sites, the PA series contains nothing else.
  if [ -s "$stem.bval" ] && awk '{ for (i = 1; i <= NF; i++) if ($i > 50) found = 1 } END { exit !found }' "$stem.bval"; then
    apptainer exec --cleanenv --bind "$dir","$work" "$IMAGE" \
      dwiextract -bzero -fslgrad "$stem.bvec" "$stem.bval" "$source" "$image"
  else
    cp "$source" "$image"
  fi

  python3 - "$stem.json" "$work/$name.json" "$BIDS_ROOT" "${targets[@]}" <<'PYTHON'
import json, os, sys
source, sidecar, bids_root, *targets = sys.argv[1:]
fields = {}
if os.path.exists(source):
    with open(source) as file:
        fields = json.load(file)
fields["IntendedFor"] = ["bids::" + os.path.relpath(path, bids_root) for path in targets]
with open(sidecar, "w") as file:
    json.dump(fields, file, indent=2)
PYTHON

  # The image that the marker matches appears last and complete, by a rename.
  for kind in json nii.gz; do
    cp "$work/$name.$kind" "$dir/fmap/.${name}_epi.$kind.tmp"
    mv -f "$dir/fmap/.${name}_epi.$kind.tmp" "$dir/fmap/${name}_epi.$kind"
  done
done
