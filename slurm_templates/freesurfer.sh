#!/bin/bash
#SBATCH --time=24:00:00
#SBATCH --mem=24G
#SBATCH --cpus-per-task=4

# freesurfer: recon-all for one session (cross-sectional).
# Arguments: subject, session (empty for a dataset without sessions).
# The result is <subjects directory>/<sub>_<ses>, as freesurfer_long.sh and FreeSurfer's own tools expect it.
set -euo pipefail

subject=${1:?usage: $0 SUBJECT SESSION}
session=${2-}

IMAGE=${SNBB_FREESURFER_IMAGE:-/opt/containers/freesurfer.sif}
FS_LICENSE=${SNBB_FS_LICENSE:-/opt/freesurfer/license.txt}
BIDS_ROOT=${SNBB_BIDS_ROOT:-/data/snbb/bids}
DERIVATIVES_ROOT=${SNBB_DERIVATIVES_ROOT:-/data/snbb/derivatives}
THREADS=${SLURM_CPUS_PER_TASK:-4}
[ -f "$FS_LICENSE" ] || { echo "no FreeSurfer license $FS_LICENSE: get a free one and set SNBB_FS_LICENSE" >&2; exit 1; }

part=$subject${session:+/$session}
output=${SNBB_OUTPUT_DIR:-$DERIVATIVES_ROOT/freesurfer/$subject${session:+_$session}}
subjects_dir=${output%/*}
name=${output##*/}
anat=$BIDS_ROOT/$part/anat
mkdir -p "$subjects_dir"
shopt -s nullglob

# Prints the image of one kind to use: the first by name that is not defaced; images normalized by
# the scanner (rec-norm) are preferred.
choose() {
  local file chosen=
  for file in "$anat"/*_"$1".nii*; do
    case $(basename "$file") in
      *defaced*) ;;
      *rec-norm*) printf '%s\n' "$file"; return ;;
      *) chosen=${chosen:-$file} ;;
    esac
  done
  [ -z "$chosen" ] || printf '%s\n' "$chosen"
}

# True if recon-all succeeded. After a failure, FreeSurfer writes the exit code to this file.
is_done() { grep -qs SUBJECT "$output/scripts/recon-all.done"; }

t1=$(choose T1w)
t2=$(choose T2w)
[ -n "$t1" ] || { echo "no T1w image in $anat" >&2; exit 1; }

if is_done; then
  echo "$name is done"
else
  if [ -e "$output/mri/orig/001.mgz" ]; then
    # FreeSurfer refuses new input for an existing subject; it continues with the previous input.
    rm -f "$output"/scripts/IsRunning*
    input=(${t2:+-T2pial})
  else
    rm -rf "${output:?}"
    input=(-i "$t1" ${t2:+-T2 "$t2" -T2pial})
  fi
  apptainer exec --cleanenv --bind "$BIDS_ROOT:$BIDS_ROOT:ro,$subjects_dir,$FS_LICENSE" \
    --env FS_LICENSE="$FS_LICENSE",SUBJECTS_DIR="$subjects_dir" "$IMAGE" \
    recon-all -sd "$subjects_dir" -s "$name" "${input[@]}" -all -parallel -openmp "$THREADS"
  is_done || { echo "recon-all failed: see $output/scripts/recon-all.log" >&2; exit 1; }
fi
