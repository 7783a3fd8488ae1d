//! The table of known errors. A line belongs to the first pattern that matches it. Of several lines, the one
//! with the highest [`Rank`] is the log excerpt.
//!
//! Sources of the texts: messages of slurmstepd, the kernel, Apptainer, FreeSurfer, nipype, Python, Java, CUDA,
//! glibc and git-annex. No expression needs Unicode.

use super::{Meaning, Rank};

use Rank::{Environment, Note, Program, System};

/// Phrases that report success with the words of failures. They are removed from a line before the search.
pub(super) const SUCCESS: &str = r"(?i)\b\w*(errors?|failures?|failed|warnings?|crash(es)?|timeouts?)( count| found)?\s*[:=]\s*(0|none|no errors?|false|success)\s*([,;.)]|$)|\b(without|no|none|0|zero|free of)( any| further)?( [\w-]+)? ?(errors?|failures?|failed|warnings?|crash(es)?|(seg)?faults?|timeouts?)( or \w+)?\b|\boom[-_ ]kill\w*\s*[:=]?\s*0\b";

/// The remedy of `out_of_memory` for the local executor, which neither limits nor measures memory.
pub(super) const LOCAL_MEMORY: &str = "use a machine with more memory, or run fewer jobs at once (`local_jobs`); the local executor neither limits nor measures memory";

/// Name, expression, rank, meaning, remedy.
type Entry = (&'static str, &'static str, Rank, &'static str, &'static str);

#[rustfmt::skip]
const TABLE: &[Entry] = &[
    ("time_limit",
        r"DUE TO TIME LIMIT|CANCELLED AT .* DUE TO TIME|(?i:exceeded [^\n]*\btime)",
        System, "the job reached its time limit",
        "increase 'time' of the procedure in the configuration, or add a 'retry' rule with 'time_factor'; 'audit --efficiency' suggests a value"),
    ("gpu_memory",
        r"CUDA out of memory|torch\.(cuda\.)?OutOfMemoryError|CUDA_ERROR_OUT_OF_MEMORY|CUBLAS_STATUS_ALLOC_FAILED",
        System, "the GPU ran out of memory",
        "request a GPU with more memory ('gres'), or make the program use less (smaller batches)"),
    ("out_of_memory",
        r"(?i:oom[-_ ]kill|out[-_ ]of[-_ ]memory|killed process \d|memory limit exceeded)|OOM Killed|\bOOMKilled\b|^Killed\s*$|slurmstepd[^\n]*\bKilled\b|: line \d+: +\d+ Killed\b|MemoryError\b|std::bad_alloc|OutOfMemoryError|(?i:cannot allocate memory)|Exceeded (job|step) memory limit|(?i:unable to allocate \S+ [KMGT]iB)|(?i:died with <Signals\.SIGKILL)|exit(ed with exit)? code 137\b",
        System, "the job ran out of memory",
        "increase 'mem' of the procedure in the configuration, or add a 'retry' rule with 'mem_factor'; 'audit --efficiency' suggests a value"),
    ("node_failure",
        r"DUE TO NODE FAILURE|NODE_FAIL|(?i:node failure)|(?i:bus error)|(?i:stale (nfs )?file handle)|(?i:transport endpoint is not connected)|(?i:input/output error)|slurmstepd: error: .*(?i:prolog failed)|DUE TO PREEMPTION",
        System, "the node or its file system failed",
        "report the node to the administrator; a 'retry' rule with 'exclude_node' avoids it"),
    ("disk_full",
        r"(?i:no space left on device)|(?i:disk quota exceeded)|\bENOSPC\b|\bEDQUOT\b|(?i:\bquota[^\n]*exceeded)|(?i:\b(file system|disk)\b[^\n]*\bfull\b)|(?i:\bwrite\b[^\n]*failed[^\n]*no space)",
        Environment, "the disk is full or the quota is exhausted",
        "free space (first in the working directories of failed jobs) or request a larger quota, then run 'retry'"),
    ("license",
        r"(?i:freesurfer license[^\n]*(not|no |missing|invalid|expired|cannot|unable|error))|(?i:(no|missing|invalid)( valid)? freesurfer license)|(?i:valid license file is required)|(?i:license file .*(not found|missing|invalid|does ?n.t exist|does not exist))|(?i:(could not|cannot|can't|unable to) (find|open|read)[^\n]*license(\.txt)?\b)|(?i:no such file[^\n]*license\.txt)|(?i:ERROR: FreeSurfer environment .*license)|(?i:license checkout failed)|(?i:FS_LICENSE.*(not|missing))",
        Environment, "a license is missing",
        "set FS_LICENSE (or the option for it) to a file that the job can read, even inside the container"),
    ("module_command",
        r"(?i:\bmodule: (command )?not found)",
        System, "the `module` command does not exist in the job's shell",
        "start the script with '#!/bin/bash -l', or source the site's initialization (often /etc/profile.d/modules.sh) before 'module load'"),
    ("cuda",
        r"(?i:no CUDA-capable device)|(?i:CUDA (driver|runtime) version is insufficient)|(?i:\b(cuda|gpu)\b[^\n]*\berrors?\b)|\bCUDA_ERROR_\w+|cudaError|RuntimeError[^\n]*CUDA|(?i:NVIDIA-SMI has failed)|(?i:cuda initialization: [^\n]*(error|fail|found no))|(?i:no nvidia driver)|(?i:could not load library libcud)",
        Environment, "the GPU could not be used",
        "check that the job requests a GPU ('gres'), that the container is started with --nv, and that driver and CUDA versions match"),
    ("container",
        r"\bFATAL: {2,}\S|(?i:(singularity|apptainer|docker|podman)[^\n]*(not found|no such|denied|failed|cannot|error))|(?i:could not open image)|(?i:image (file )?(not found|does not exist))|(?i:unable to find image)|(?i:failed to (mount|create|extract|open) [^\n]*(image|container|squashfs|sandbox))|(?i:pull access denied)|(?i:\bcontainer\b[^\n]*\bfailed)|(?i:\bfatal\b[^\n]*(apptainer|singularity))",
        Environment, "the container could not be started",
        "check that the image is readable on the nodes, that bind paths exist, and that the runtime is loaded"),
    ("module",
        r"(?i:lmod has detected the following error)|(?i:the following module\(s\) are unknown)|(?i:unable to locate a modulefile)|(?i:module: command not found)|(?i:: command not found)|ModuleNotFoundError|ImportError:|(?i:error while loading shared libraries)",
        Environment, "a program, module or library was not found",
        "load the module in the script (cron and Slurm start with a minimal environment), or use the program's full path"),
    ("annex",
        r"(?i:git-annex: [^\n]*(failed|not |unable|cannot|error))|(?i:unable to access these remotes)|(?i:\(not available\))|(?i:content (is )?not (present|available))|\.git/annex/objects/[^\n]*(?i:no such file)|(?i:no such file)[^\n]*\.git/annex/objects/|(?i:datalad[^\n]*(error|failed|impossible))|(?i:^get\(error\)|^(get|install|update)\((error|impossible)\))",
        Environment, "the content of a file is not available locally (git-annex, DataLad)",
        "fetch it ('datalad get' or 'git annex get') before the job or in the script"),
    ("network",
        r"(?i:could not resolve host)|(?i:temporary failure in name resolution)|(?i:name or service not known)|(?i:network is unreachable)|(?i:connection (refused|timed out|reset by peer))|(?i:no route to host)|(?i:failed to establish a new connection)|(?i:urlopen error)|(?i:TLS handshake timeout)|(?i:max retries exceeded with url)",
        Environment, "the network could not be used",
        "compute nodes often have no internet access: fetch templates and images on the login node first"),
    ("timed_out",
        r"(?i:\btimed out\b)|(?i:(^|[^-\w])time-?out($|[^\w=: ]|[=:] ?[^\d\s]| [^\d=:]))|TimeoutError|TimeoutExpired",
        Program, "a step timed out",
        "read the lines above it in the log to find out what it waited for"),
    ("not_bids",
        r"BIDSValidationError|(?i:dataset_description\.json'? is missing)|MISSING_DATASET_DESCRIPTION",
        Environment, "the BIDS dataset has no dataset_description.json",
        "write one ('check' prints the command); the catalogue's converters create a missing one"),
    ("conversion",
        r"(HeuDiConv|Dcm2Bids) converted no series|dcm2niix made no images|(?i:unable to find any dicom images)|(?i:no valid dicom images)|NO PAIRING WAS FOUND",
        Program, "the converter created no images",
        "check that the session's directory contains DICOM files, and that the converter's heuristic or rules match the names of its series"),
    ("segfault",
        r"(?i:segmentation fault)|\bSIGSEGV\b|(?i:\bsegfault\b)|(?i:\bsignal:? 11\b)|(?i:core dumped)|\bSIGABRT\b|(?i:illegal instruction)|\bSIGILL\b|(?i:double free or corruption)|(?i:stack smashing detected)|(?i:floating point exception)",
        Program, "a program crashed",
        "retry with more memory; if it still crashes, report it to its developers with the version and the input"),
    ("freesurfer",
        r"recon-all -s \S+ exited with ERRORS|exited with ERRORS at|(?i:^ERROR: (mri|mris|recon-all|talairach|ca)_?\w*)|ERROR: Talairach failed|(?i:recon-all[^\n]*\berrors?\b)|(?i:\bmris?_\w+[^\n]*\b(errors?|failed)\b)",
        Program, "FreeSurfer failed",
        "read scripts/recon-all.log of the subject; remove scripts/IsRunning* before the next attempt"),
    ("nipype",
        r#"(?i:node:? \S+ failed to run)|Node \S+ failed|(?i:saving crash info to)|\bcrash-\d{8}-\d{6}\S*|(?i:preprocessing did not finish successfully)|(?i:\b(nipype|fmriprep|qsiprep|qsirecon|mriqc|xcp_d|smriprep|aslprep)\b[^\n]*(error(s|:|\b)|critical\b|\bfailed\b|did not finish))|(?i:RuntimeError[^\n]*qsiprep)|NodeExecutionError"#,
        Program, "a step of a nipype workflow (fMRIPrep, QSIPrep, ...) failed",
        "read the crash file that the log names ('nipypecli crash FILE')"),
    ("permission",
        r"(?i:(permission|access) denied)|PermissionError|(?i:operation not permitted)|\bEACCES\b|(?i:read-only file system)",
        Program, "permission to read or write a file or directory was denied",
        "check on the nodes that the user who runs the jobs may access the path in the line"),
    ("missing_file",
        r"(?i:no such file or directory)|FileNotFoundError|(?i:file not found)|(?i:does not exist)|(?i:cannot (find|open|read|stat|access) (file|volume|image)?\s*[\x22'/\w])|(?i:could not (find|open|read) )|(?i:cannot open[^\n]*no such)",
        Program, "a file or directory is missing",
        "check the path in the line: an earlier procedure may not have created it, or it is not bound into the container"),
    ("python",
        r"^Traceback \(most recent call last\)|^[A-Za-z_][\w.]*(Error|Exception|Interrupt)(: |\s*$)|^\s*raise [A-Z]\w+|^(SystemExit|KeyboardInterrupt)\b",
        Program, "a Python program failed",
        "read the lines above it in the log"),
    ("slurm",
        r"slurmstepd: error|(?i:\bnode\b[^\n]*\bfail)|(?i:\bjob\b[^\n]*\bnode\b[^\n]*\bdown\b)",
        Program, "Slurm reported a problem with the job or its node",
        "read the line; 'explain' shows Slurm's state and the exit code"),
    ("left_out",
        r"^series left out: |No Pairing  <-",
        Note, "the converter skipped a series that matches none of its rules",
        "add a rule to the heuristic or to dcm2bids.json, or add the series to IGNORED"),
    ("warning",
        r"(?i:\b(nipype|fmriprep|qsiprep|qsirecon|mriqc|xcp_d|smriprep|aslprep)\b[^\n]*warning)|UserWarning",
        Note, "a program printed a warning",
        "read the line in the log"),
];

/// The expressions with their meanings.
pub(super) fn patterns<'t>() -> impl Iterator<Item = (&'t str, Meaning)> {
    TABLE.iter().map(|&(name, regex, rank, meaning, hint)| {
        let meaning = Meaning {
            name: name.into(),
            meaning: meaning.into(),
            hint: hint.into(),
            rank,
        };
        (regex, meaning)
    })
}
