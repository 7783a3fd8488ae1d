#!/bin/bash
# An example of a job script: counts the files of one session. Replace it with your own script or one from the
# catalogue (snbb-scheduler init --list).
#
# $1 subject, $2 session (empty in a dataset without sessions), $3 DICOM directory (empty without DICOM files).
# The scheduler sets SNBB_OUTPUT_DIR, SNBB_BIDS_ROOT, SNBB_DERIVATIVES_ROOT and more. The task is complete if the exit
# code is 0 and its completion_marker exists.
set -euo pipefail

subject=${1:?usage: example.sh SUBJECT SESSION DICOM_DIR}
session=${2-}
input=${3:-}
[ -n "$input" ] || input=${SNBB_BIDS_ROOT:?}/$subject${session:+/$session}
output=${SNBB_OUTPUT_DIR:?set by the scheduler}

mkdir -p "$output"
count=$(find -L "$input" -type f | wc -l)
# Written under a temporary name first, so that a killed job does not leave an incomplete file that counts.
printf '%s %s: %d files in %s\n' "$subject" "$session" "$count" "$input" >"$output/.summary.txt.tmp"
mv "$output/.summary.txt.tmp" "$output/summary.txt"
