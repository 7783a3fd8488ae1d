#!/bin/bash
#SBATCH --time=72:00:00
#SBATCH --mem=24G
#SBATCH --cpus-per-task=4

# freesurfer_long: FreeSurfer's longitudinal stream for one subject: creates the template of all sessions, and processes
# each session again with the template. freesurfer.sh processes the individual sessions first.
# Argument: subject.
# A step is skipped only if its recon-all.done reports success, so a new attempt continues where the last one
# failed. Results that are outdated by a new session are moved to .superseded/.
set -euo pipefail

subject=${1:?usage: $0 SUBJECT}

IMAGE=${SNBB_FREESURFER_IMAGE:-/opt/containers/freesurfer.sif}
FS_LICENSE=${SNBB_FS_LICENSE:-/opt/freesurfer/license.txt}
BIDS_ROOT=${SNBB_BIDS_ROOT:-/data/snbb/bids}
DERIVATIVES_ROOT=${SNBB_DERIVATIVES_ROOT:-/data/snbb/derivatives}
THREADS=${SLURM_CPUS_PER_TASK:-4}
[ -f "$FS_LICENSE" ] || { echo "no FreeSurfer license $FS_LICENSE: get a free one and set SNBB_FS_LICENSE" >&2; exit 1; }

output=${SNBB_OUTPUT_DIR:-$DERIVATIVES_ROOT/freesurfer/$subject}
subjects_dir=${output%"/$subject"}
mkdir -p "$subjects_dir"
shopt -s nullglob

# True if recon-all succeeded. After a failure, FreeSurfer writes the exit code to this file.
is_done() { grep -qs SUBJECT "$subjects_dir/$1/scripts/recon-all.done"; }

set_aside() {
  [ -e "$subjects_dir/$1" ] || return 0
  mkdir -p "$subjects_dir/.superseded"
  mv "$subjects_dir/$1" "$subjects_dir/.superseded/$1.$(date +%Y%m%dT%H%M%S).$$"
}

# Runs recon-all for one result: recon_all NAME OPTION...
recon_all() {
  local result=$1
  shift
  rm -f "$subjects_dir/$result"/scripts/IsRunning*
  echo "recon-all $*"
  apptainer exec --cleanenv --bind "$subjects_dir,$FS_LICENSE" \
    --env FS_LICENSE="$FS_LICENSE",SUBJECTS_DIR="$subjects_dir" "$IMAGE" \
    recon-all -sd "$subjects_dir" "$@"
  is_done "$result" || { echo "recon-all failed: see $subjects_dir/$result/scripts/recon-all.log" >&2; exit 1; }
}

# True if the template was made from all of these: template_fits NAME...
template_fits() {
  local name
  for name in "$@"; do
    grep -qsxF -- "$name" "$subjects_dir/$subject/base-tps" || return 1
  done
}

# The sessions with a T1w image that is not defaced, like in the scheduler's check.
names=()
for dir in "$BIDS_ROOT/$subject"/ses-*/; do
  images=()
  for image in "$dir"anat/*_T1w.nii.gz; do
    case ${image##*/} in *defaced*) ;; *) images+=("$image") ;; esac
  done
  [ ${#images[@]} -eq 0 ] || names+=("${subject}_$(basename "$dir")")
done
[ ${#names[@]} -ge 2 ] || { echo "$subject has ${#names[@]} sessions with a T1w image, but two are required" >&2; exit 1; }
for name in "${names[@]}"; do
  is_done "$name" || { echo "$subjects_dir/$name is missing or failed: run freesurfer first" >&2; exit 1; }
done

template_fits "${names[@]}" || set_aside "$subject"
if ! is_done "$subject"; then
  # Results of another template are outdated, too.
  for name in "${names[@]}"; do set_aside "$name.long.$subject"; done
  points=()
  for name in "${names[@]}"; do points+=(-tp "$name"); done
  recon_all "$subject" -base "$subject" "${points[@]}" -all -parallel -openmp "$THREADS"
fi
for name in "${names[@]}"; do
  is_done "$name.long.$subject" && { echo "$name.long.$subject is done"; continue; }
  # Without -parallel, which makes FreeSurfer 8 fail in this step.
  recon_all "$name.long.$subject" -long "$name" "$subject" -all -openmp "$THREADS"
done
