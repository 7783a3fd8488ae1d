#!/bin/bash
#SBATCH --time=48:00:00
#SBATCH --mem=32G
#SBATCH --cpus-per-task=8

# tractoflow: diffusion MRI from raw data to tractograms, of one session, with TractoFlow (2.4).
# Arguments: subject, session (empty for a dataset without sessions).
# The nodes need Nextflow (up to 21.12, because TractoFlow uses its first language), Java and `singularity`. The steps
# run inside this job.
# Completion markers: PFT_Tracking/*.trk, ...
set -euo pipefail

subject=${1:?usage: $0 SUBJECT SESSION}
session=${2-}

IMAGE=${SNBB_TRACTOFLOW_IMAGE:-/opt/containers/scilus.sif}
# A directory with TractoFlow's main.nf, or a name that Nextflow downloads in this REVISION.
PIPELINE=${SNBB_TRACTOFLOW_PIPELINE:-scilus/tractoflow}
REVISION=${SNBB_TRACTOFLOW_REVISION-2.4.3}
# The scanner's values: y is anterior-posterior; readout in seconds.
ENCODING_DIRECTION=${SNBB_TRACTOFLOW_ENCODING_DIRECTION:-y}
READOUT=${SNBB_TRACTOFLOW_READOUT:-0.062}
BIDS_ROOT=${SNBB_BIDS_ROOT:-/data/snbb/bids}
DERIVATIVES_ROOT=${SNBB_DERIVATIVES_ROOT:-/data/snbb/derivatives}
SCRATCH=${SNBB_SCRATCH:-${SLURM_TMPDIR:-${TMPDIR:-/tmp}}}
THREADS=${SLURM_CPUS_PER_TASK:-8}

part=$subject${session:+/$session}
name=$subject${session:+_$session}
output=${SNBB_OUTPUT_DIR:-$DERIVATIVES_ROOT/tractoflow/$part}
root=${output%"/$part"}
mkdir -p "$root"
work=$(mktemp -d "$SCRATCH/snbb_tractoflow_${subject}_XXXXXX")
stage=$root/.$name.tmp
trap 'rm -rf "$work" "$stage"' EXIT
shopt -s nullglob

# Prints the first file that is not defaced: first FILE...
first() {
  local file
  for file in "$@"; do
    case ${file##*/} in *defaced*) ;; *) printf '%s\n' "$file"; return ;; esac
  done
}

# Processes a series with gradients. If there is an image without diffusion weighting of the other phase encoding
# direction (fmap/*acq-dwi*_epi), it is used for distortion correction.
bids=$BIDS_ROOT/$part
dwi=$(first "$bids"/dwi/*dir-AP*_dwi.nii.gz "$bids"/dwi/*_dwi.nii.gz)
t1=$(first "$bids"/anat/*_T1w.nii.gz)
reverse=$(first "$bids"/fmap/*acq-dwi*_epi.nii.gz)
[ -n "$t1" ] || { echo "no T1w image in $bids/anat" >&2; exit 1; }
[ -s "${dwi%.nii.gz}.bvec" ] || { echo "no diffusion series with gradients in $bids/dwi" >&2; exit 1; }
input=$work/input/$name
mkdir -p "$input"
cp "$dwi" "$input/dwi.nii.gz"
cp "${dwi%.nii.gz}.bval" "$input/bval"
cp "${dwi%.nii.gz}.bvec" "$input/bvec"
cp "$t1" "$input/t1.nii.gz"
[ -z "$reverse" ] || cp "$reverse" "$input/rev_b0.nii.gz"

# Nextflow writes its own files to the working directory.
cd "$work"
nextflow run "$PIPELINE" ${REVISION:+-r "$REVISION"} --input "$work/input" --output_dir "$work/results" \
  --mean_frf false --encoding_direction "$ENCODING_DIRECTION" --readout "$READOUT" \
  --processes "$THREADS" -with-singularity "$IMAGE" -w "$work/nextflow"

# Nextflow skips failed steps and still succeeds.
tracts=("$work/results/$name"/PFT_Tracking/*.trk)
[ ${#tracts[@]} -gt 0 ] || { echo "TractoFlow made no tractogram of $name: an earlier step failed" >&2; exit 1; }

# The results are links to Nextflow's directory. They are copied as files and appear complete, by one rename.
rm -rf "$stage"
cp -RL "$work/results/$name" "$stage"
mkdir -p "$(dirname "$output")"
rm -rf "$output"
mv -T "$stage" "$output"
