#!/bin/bash
# Lets the real BABS process a study: babs init, its jobs one after the other, babs merge. DIR/bids is the study,
# DIR/derivatives/babs a clone of the store with the results.
# usage: babs.sh DIR subject|session      (babs, datalad and git-annex on PATH)
set -euo pipefail
dir=$1 level=$2

quiet() {
  "$@" >>"$dir/log" 2>&1 || {
    tail -n 40 "$dir/log" >&2
    exit 1
  }
}

export HOME=$dir/home PATH=$dir/bin:$PATH
mkdir -p "$HOME" "$dir/bin" "$dir/scratch"
git config --global user.name test
git config --global user.email test@localhost
git config --global init.defaultBranch main
cat >"$dir/bin/singularity" <<'S'
#!/bin/bash
# Stands in for fMRIPrep's container: singularity run ... IMAGE BIDS OUT participant ... SUBJECT
while [ "$1" != participant ]; do out=$1; shift; done
for subject; do :; done
mkdir -p "$out/$subject"
echo done >"$out/$subject.html"
S
chmod +x "$dir/bin/singularity"

cd "$dir"
quiet datalad create -c text2git bids
for subject in sub-01 sub-02; do
  for session in ses-a ses-b; do
    mkdir -p bids/$subject/$session/{anat,func}
    echo x >bids/$subject/$session/anat/${subject}_${session}_T1w.nii.gz
    echo x >bids/$subject/$session/func/${subject}_${session}_task-rest_bold.nii.gz
  done
done
echo '{"Name": "test", "BIDSVersion": "1.8.0"}' >bids/dataset_description.json
quiet datalad save -d bids
quiet datalad create containers
mkdir -p containers/.datalad/environments/fmriprep-24-1-1
echo image >containers/.datalad/environments/fmriprep-24-1-1/image
quiet datalad save -d containers
cat >babs.yaml <<Y
input_datasets:
  BIDS:
    is_zipped: false
    origin_url: $dir/bids
    path_in_babs: inputs/data/BIDS
    required_files: ["func/*_bold.nii*"]
cluster_resources: {interpreting_shell: /bin/bash}
script_preamble: "true"
job_compute_space: $dir/scratch
singularity_args: []
bids_app_args: {\$SUBJECT_SELECTION_FLAG: --participant-label}
all_results_in_one_zip: true
zip_foldernames: {fmriprep: "24-1-1"}
Y
quiet babs init --container_ds "$dir/containers" --container_name fmriprep-24-1-1 \
  --container_config "$dir/babs.yaml" --processing_level "$level" --queue slurm "$dir/project"

cd project/analysis
id=$(git config --file .datalad/config datalad.dataset.id)
store=ria+file://$dir/project
tasks=$(tail -n +2 code/processing_inclusion.csv | wc -l)
export SLURM_ARRAY_JOB_ID=1 DSLOCKFILE=$dir/lock
touch "$DSLOCKFILE"
for ((task = 1; task <= tasks; task++)); do
  SLURM_ARRAY_TASK_ID=$task quiet bash code/participant_job.sh "$store/input_ria#$id" \
    "$(git remote get-url --push output)" "$PWD/code/processing_inclusion.csv"
done
quiet babs merge "$dir/project"
quiet datalad clone "$store/output_ria#~data" "$dir/derivatives/babs"
