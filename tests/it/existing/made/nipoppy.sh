#!/bin/bash
# Lets the real nipoppy process a study of two subjects with two sessions: DIR/study is made.
# usage: nipoppy.sh DIR      (nipoppy on PATH)
set -euo pipefail
dir=$1
export HOME=$dir/home PATH=$dir/bin:$PATH
mkdir -p "$HOME" "$dir/bin" "$dir/pipeline"
# It is looked for, and not called: the descriptor names no container.
printf '#!/bin/bash\n' >"$dir/bin/apptainer"
chmod +x "$dir/bin/apptainer"

cd "$dir"
nipoppy init --study study
printf 'participant_id\tvisit_id\tsession_id\tdatatype\n' >study/manifest.tsv
for subject in 01 02; do
  for session in a b; do
    printf '%s\t%s\t%s\t%s\n' $subject $session $session "['anat','func']" >>study/manifest.tsv
    for file in anat/sub-${subject}_ses-${session}_T1w func/sub-${subject}_ses-${session}_task-rest_bold; do
      mkdir -p "study/bids/sub-$subject/ses-$session/${file%/*}"
      echo x >"study/bids/sub-$subject/ses-$session/$file.nii.gz"
    done
  done
done
echo '{"Name": "test", "BIDSVersion": "1.8.0"}' >study/bids/dataset_description.json
cat >pipeline/config.json <<'J'
{"NAME": "fmriprep", "VERSION": "24.1.1", "PIPELINE_TYPE": "processing", "SCHEMA_VERSION": "1.0",
 "STEPS": [{"INVOCATION_FILE": "invocation.json", "DESCRIPTOR_FILE": "descriptor.json",
            "ANALYSIS_LEVEL": "participant_session"}]}
J
cat >pipeline/invocation.json <<'J'
{"out": "[[NIPOPPY_DPATH_PIPELINE_OUTPUT]]", "subject": "[[NIPOPPY_BIDS_PARTICIPANT_ID]]",
 "session": "[[NIPOPPY_BIDS_SESSION_ID]]"}
J
cat >pipeline/descriptor.json <<J
{"name": "fmriprep", "description": "in place of fMRIPrep", "tool-version": "24.1.1", "schema-version": "0.5",
 "command-line": "bash $dir/app.sh [OUT] [SUBJECT] [SESSION]",
 "inputs": [{"name": "out", "id": "out", "type": "String", "value-key": "[OUT]"},
            {"name": "subject", "id": "subject", "type": "String", "value-key": "[SUBJECT]"},
            {"name": "session", "id": "session", "type": "String", "value-key": "[SESSION]"}]}
J
cat >app.sh <<'S'
# Writes, of what fMRIPrep writes for a session, what its results are known by.
out=$1 subject=$2 session=$3
stem=${subject}_${session}
mkdir -p "$out/$subject/$session/"{anat,func} "$out/$subject/figures"
head -c 200000 /dev/zero >"$out/$subject/$session/anat/${stem}_desc-preproc_T1w.nii.gz"
echo x >"$out/$subject/$session/func/${stem}_task-rest_from-boldref_to-T1w_mode-image_desc-coreg_xfm.txt"
echo x >"$out/$subject/$session/func/${stem}_task-rest_desc-preproc_bold.nii.gz"
echo '<li>No errors to report!</li>' >"$out/$subject.html"
echo '{"GeneratedBy": [{"Name": "fMRIPrep", "Version": "24.1.1"}]}' >"$out/dataset_description.json"
S
nipoppy pipeline install --study study -y pipeline
nipoppy track-curation --study study
nipoppy process --study study --pipeline fmriprep --pipeline-version 24.1.1
