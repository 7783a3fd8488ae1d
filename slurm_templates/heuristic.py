"""HeuDiConv heuristic that fits snbb-scheduler's built-in markers. Edit the rules for your scanner's protocols.

A rule is a pattern of the protocol name and the BIDS name that a series of it gets. The first rule that
matches counts; series that match none are left out.
"""

import re

RULES = [
    (r"t1w|mprage", "anat/{prefix}_T1w"),
    (r"t2w|t2_space", "anat/{prefix}_T2w"),
    (r"(dwi|dti|diff).*(pa|p>>a)(?![a-z])", "dwi/{prefix}_dir-PA_dwi"),
    (r"dwi|dti|diff", "dwi/{prefix}_dir-AP_dwi"),
    (r"(fmap|field|se_?epi|spinecho).*ap(?![a-z])", "fmap/{prefix}_acq-func_dir-AP_epi"),
    (r"(fmap|field|se_?epi|spinecho).*pa(?![a-z])", "fmap/{prefix}_acq-func_dir-PA_epi"),
    (r"rest", "func/{prefix}_task-rest_bold"),
]


def infotodict(seqinfo):
    info = {}
    for series in seqinfo:
        # Maps that the scanner computed (ADC, FA, trace) are not raw data.
        if getattr(series, "is_derived", False):
            continue
        for pattern, name in RULES:
            if re.search(pattern, series.protocol_name.lower()):
                template = "{bids_subject_session_dir}/" + name.format(
                    prefix="{bids_subject_session_prefix}"
                )
                # A repeated series replaces the earlier one: it was repeated for a reason.
                info[(template, ("nii.gz",), None)] = [series.series_id]
                break
    return info
