#!/bin/bash
#SBATCH --time=08:00:00
#SBATCH --mem=16G
#SBATCH --cpus-per-task=4

# fastsurfer: segmentation and surfaces of one session with FastSurfer (2.2 or later).
# Arguments: subject, session (empty for a dataset without sessions).
# The result is <subjects directory>/<sub>_<ses>, as FreeSurfer's tools expect it.
set -euo pipefail

subject=${1:?usage: $0 SUBJECT SESSION}
session=${2-}

IMAGE=${SNBB_FASTSURFER_IMAGE:-/opt/containers/fastsurfer.sif}
FS_LICENSE=${SNBB_FS_LICENSE:-/opt/freesurfer/license.txt}
# Further options: --3T for images of a 3 T scanner, --seg_only to omit the surfaces.
OPTIONS=${SNBB_FASTSURFER_OPTIONS---3T}
BIDS_ROOT=${SNBB_BIDS_ROOT:-/data/snbb/bids}
DERIVATIVES_ROOT=${SNBB_DERIVATIVES_ROOT:-/data/snbb/derivatives}
THREADS=${SLURM_CPUS_PER_TASK:-4}
[ -f "$FS_LICENSE" ] || { echo "no FreeSurfer license $FS_LICENSE: get a free one and set SNBB_FS_LICENSE" >&2; exit 1; }

part=$subject${session:+/$session}
output=${SNBB_OUTPUT_DIR:-$DERIVATIVES_ROOT/fastsurfer/$subject${session:+_$session}}
subjects_dir=${output%/*}
name=${output##*/}
mkdir -p "$subjects_dir"
shopt -s nullglob

# The first image by name that is not defaced; images normalized by the scanner (rec-norm) are preferred.
t1=
for file in "$BIDS_ROOT/$part"/anat/*_T1w.nii*; do
  case ${file##*/} in
    *defaced*) ;;
    *rec-norm*) t1=$file; break ;;
    *) t1=${t1:-$file} ;;
  esac
done
[ -n "$t1" ] || { echo "no T1w image in $BIDS_ROOT/$part/anat" >&2; exit 1; }

# Uses a GPU if the job has one (gres: gpu:1).
gpu=()
[ -z "${CUDA_VISIBLE_DEVICES-}" ] || gpu=(--nv)
rm -rf "${output:?}"
read -ra options <<<"$OPTIONS"
apptainer exec --cleanenv --no-mount home,cwd "${gpu[@]}" \
  --bind "$BIDS_ROOT:$BIDS_ROOT:ro,$subjects_dir,$FS_LICENSE" "$IMAGE" \
  /fastsurfer/run_fastsurfer.sh --fs_license "$FS_LICENSE" \
  --t1 "$t1" --sid "$name" --sd "$subjects_dir" --threads "$THREADS" "${options[@]}"

segmentation=$output/mri/aparc.DKTatlas+aseg.deep.mgz
[ -s "$segmentation" ] || { echo "FastSurfer made no $segmentation" >&2; exit 1; }
