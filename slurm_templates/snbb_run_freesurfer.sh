#!/bin/bash
#SBATCH --time=72:00:00
#SBATCH --mem=32G
#SBATCH --cpus-per-task=8

# freesurfer: recon-all for one subject: a plain run for one session, or the longitudinal stream for
# several (each session, the template of all, each session again with the template).
# Argument: subject.
# A step is skipped only if its recon-all.done reports success, so a new attempt continues where
# the last one failed. Results that are outdated by a new session are moved to .superseded/.
set -euo pipefail

subject=${1:?usage: $0 SUBJECT}

IMAGE=${SNBB_FREESURFER_IMAGE:-/opt/containers/freesurfer.sif}
FS_LICENSE=${SNBB_FS_LICENSE:-/opt/freesurfer/license.txt}
BIDS_ROOT=${SNBB_BIDS_ROOT:-/data/snbb/bids}
DERIVATIVES_ROOT=${SNBB_DERIVATIVES_ROOT:-/data/snbb/derivatives}
THREADS=${SLURM_CPUS_PER_TASK:-8}

output=${SNBB_OUTPUT_DIR:-$DERIVATIVES_ROOT/freesurfer/$subject}
subjects_dir=${output%"/$subject"}
mkdir -p "$subjects_dir"
shopt -s nullglob

# --- helpers ------------------------------------------------------------------------------------

# Prints the image of one kind to use from an anat directory: the first by name that is not defaced;
# images normalized by the scanner (rec-norm) are preferred.
choose() {
  local file chosen=
  for file in "$1"/*_"$2".nii.gz; do
    case $(basename "$file") in
      *defaced*) ;;
      *rec-norm*) printf '%s\n' "$file"; return ;;
      *) chosen=${chosen:-$file} ;;
    esac
  done
  [ -z "$chosen" ] || printf '%s\n' "$chosen"
}

# True if recon-all succeeded. After a failure, FreeSurfer writes the exit code to this file.
is_done() {
  local first=
  [ -f "$subjects_dir/$1/scripts/recon-all.done" ] || return 1
  IFS= read -r first <"$subjects_dir/$1/scripts/recon-all.done" || true
  [[ ! $first =~ ^[[:space:]]*([+-]?[0-9]+)?[[:space:]]*$ ]]
}

set_aside() {
  [ -e "$subjects_dir/$1" ] || return 0
  mkdir -p "$subjects_dir/.superseded"
  mv "$subjects_dir/$1" "$subjects_dir/.superseded/$1.$(date +%Y%m%dT%H%M%S).$$"
}

recon_all() {
  echo "recon-all $*"
  apptainer exec --cleanenv --bind "$BIDS_ROOT":"$BIDS_ROOT":ro,"$subjects_dir","$FS_LICENSE" \
    --env FS_LICENSE="$FS_LICENSE",SUBJECTS_DIR="$subjects_dir" "$IMAGE" \
    recon-all -sd "$subjects_dir" "$@"
}

# Processes one session (cross-sectional): cross NAME ANAT_DIRECTORY
cross() {
  local input t2
  is_done "$1" && { echo "$1 is done"; return; }
  input=(-i "$(choose "$2" T1w)")
  t2=$(choose "$2" T2w)
  [ -z "$t2" ] || input+=(-T2 "$t2" -T2pial)
  if [ -e "$subjects_dir/$1/mri/orig/001.mgz" ]; then
    # FreeSurfer refuses new input for an existing subject; it continues with the previous input.
    rm -f "$subjects_dir/$1"/scripts/IsRunning*
    input=(${t2:+-T2pial})
  else
    rm -rf "${subjects_dir:?}/$1"
  fi
  recon_all -s "$1" "${input[@]}" -all -parallel -openmp "$THREADS"
}

# True if the template was made from all of these sessions: template_fits NAME...
template_fits() {
  local name
  for name in "$@"; do
    grep -qxF -- "$name" "$subjects_dir/$subject/base-tps" 2>/dev/null || return 1
  done
}

# --- the sessions -------------------------------------------------------------------------------

sessions=()
for dir in "$BIDS_ROOT/$subject"/ses-*/; do
  [ -z "$(choose "$dir/anat" T1w)" ] || sessions+=("$(basename "$dir")")
done

if [ ${#sessions[@]} -eq 0 ] && [ -n "$(choose "$BIDS_ROOT/$subject/anat" T1w)" ]; then
  cross "$subject" "$BIDS_ROOT/$subject/anat"
  exit
fi
if [ ${#sessions[@]} -eq 0 ]; then
  echo "no session of $subject has a T1w image below $BIDS_ROOT/$subject" >&2
  exit 1
fi
if [ ${#sessions[@]} -eq 1 ]; then
  cross "$subject" "$BIDS_ROOT/$subject/${sessions[0]}/anat"
  exit
fi

names=("${sessions[@]/#/${subject}_}")
for session in "${sessions[@]}"; do
  cross "${subject}_$session" "$BIDS_ROOT/$subject/$session/anat"
done

if ! template_fits "${names[@]}"; then
  # It has other sessions, or is a plain run from when there was only one session.
  set_aside "$subject"
fi
if ! is_done "$subject"; then
  # Results of another template are outdated, too.
  for name in "${names[@]}"; do set_aside "$name.long.$subject"; done
  rm -f "$subjects_dir/$subject"/scripts/IsRunning*
  points=()
  for name in "${names[@]}"; do points+=(-tp "$name"); done
  recon_all -base "$subject" "${points[@]}" -all -parallel -openmp "$THREADS"
fi

for session in "${sessions[@]}"; do
  name=${subject}_$session
  is_done "$name.long.$subject" && { echo "$name.long.$subject is done"; continue; }
  rm -f "$subjects_dir/$name.long.$subject"/scripts/IsRunning*
  t2=$(choose "$BIDS_ROOT/$subject/$session/anat" T2w)
  # Without -parallel, which makes FreeSurfer 8 fail in this step.
  recon_all -long "$name" "$subject" ${t2:+-T2pial} -all -openmp "$THREADS"
done
