"""HeuDiConv heuristic that matches snbb-scheduler's built-in markers. Edit the rules for your scanner's protocols.

The first rule whose pattern occurs in a series' name determines its file. Several series with the same file are
runs of it and are all kept, as run-1, run-2 and so on. A series without a matching rule is skipped with one line
on stderr; series that match IGNORED are skipped silently.
"""

import re
import sys
from collections import defaultdict

IGNORED = r"localizer|scout|phoenix|physio"

RULES = [
    (r"t1w|mprage", "anat/{prefix}_T1w"),
    (r"t2w|t2_space", "anat/{prefix}_T2w"),
    (r"(dwi|dti|diff).*(pa|p>>a)(?![a-z])", "dwi/{prefix}_dir-PA_dwi"),
    (r"dwi|dti|diff", "dwi/{prefix}_dir-AP_dwi"),
    (r"(fmap|field|se_?epi|spinecho).*(?<![a-z])ap(?![a-z])", "fmap/{prefix}_acq-func_dir-AP_epi"),
    (r"(fmap|field|se_?epi|spinecho).*(?<![a-z])pa(?![a-z])", "fmap/{prefix}_acq-func_dir-PA_epi"),
    (r"rest|task|bold|fmri|func", "func/{prefix}_task-{task}_bold"),
]

# Words in a functional series' name that are not part of its task.
NO_TASK = r"task|bold|fmri|func|ep2d|epi|cmrr|mb\d*|me\d*|sms\d*|run|ap|pa|lr|rl|\d+(mm|iso)?"


def infotodict(seqinfo):
    by_name = defaultdict(list)
    for series in seqinfo:
        name, reason = bids_name(series)
        if name:
            by_name[name].append(series)
        elif reason:
            print(f"series left out: {series.series_id}: {reason}", file=sys.stderr)
    info = {}
    for name, same in by_name.items():
        for series, run in zip(same, runs(same)):
            template = "{bids_subject_session_dir}/" + name.format(prefix="{bids_subject_session_prefix}")
            info[(with_run(template, run), ("nii.gz",), None)] = [series.series_id]
    return info


def bids_name(series):
    """The file of a series, or the reason why it is skipped (None if it matches IGNORED)."""
    # The name that the technician sees; some scanners set only one of the two.
    name = (series.protocol_name or series.series_description or "").lower()
    description = (series.series_description or "").lower()
    if re.search(IGNORED, name) or re.search(IGNORED, description):
        return None, None
    # Maps computed by the scanner (ADC, FA, trace) and its motion correction are not raw data.
    if getattr(series, "is_derived", False):
        return None, "derived from other series by the scanner"
    if getattr(series, "is_motion_corrected", False):
        return None, "motion-corrected by the scanner"
    for pattern, target in RULES:
        if re.search(pattern, name):
            target = target.replace("{task}", task(name))
            # The reference image of a multi-band series has the same name as the series.
            if "sbref" in name + description and re.search("_(bold|dwi|epi)$", target):
                target = re.sub("_(bold|dwi|epi)$", "_sbref", target)
            return target, None
    return None, "no rule of the heuristic matches"


def task(name):
    """The label of the task: the word after `task-`, or `rest`, or the remaining name."""
    found = re.search(r"task[-_ ]?([a-z0-9]+)", name)
    if found:
        return found[1]
    if "rest" in name:
        return "rest"
    words = re.split(r"[^a-z0-9]+", re.sub(r"run[-_ ]?\d+", "", name))
    return "".join(word for word in words if word and not re.fullmatch(NO_TASK, word)) or "unnamed"


def runs(same):
    """The run number of each series with the same file; None if there is only one."""
    named = [re.search(r"(?<![a-z])run[-_ ]?(\d+)", (series.protocol_name or "").lower()) for series in same]
    numbers = [int(found[1]) if found else None for found in named]
    if len(set(numbers)) == len(same) and (None not in numbers or len(same) == 1):
        return numbers
    return range(1, len(same) + 1)


def with_run(template, run):
    return template if run is None else re.sub("_([A-Za-z0-9]+)$", rf"_run-{run}_\1", template)
