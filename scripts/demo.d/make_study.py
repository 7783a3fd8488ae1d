"""Make a study of 4 subjects and 7 sessions from DICOM files that are part of nibabel and pydicom.

The files are used unchanged: two volumes of a Siemens diffusion scan and a Philips MPRAGE, whose pixels
were replaced by a pattern and by zeros by their publishers, and a slice of a Toshiba T2-weighted scan.

Usage: make_study.py DICOM_ROOT
"""

import gzip
import shutil
import sys
from pathlib import Path

import nibabel
import pydicom

SESSIONS = {
    "sub-0001": ["ses-01", "ses-02"],
    "sub-0002": ["ses-01", "ses-02"],
    "sub-0003": ["ses-01", "ses-02"],
    "sub-0004": ["ses-01"],
}


def sources():
    nicom = Path(nibabel.__file__).parent / "nicom/tests/data"
    pixels = Path(pydicom.__file__).parent / "data/test_files"
    files = {
        "dwi/0.dcm": nicom / "0.dcm",
        "dwi/1.dcm": nicom / "1.dcm",
        "t1/1.dcm": nicom / "philips_mprage.dcm.gz",
        "t2/1.dcm": pixels / "MR_small.dcm",
    }
    missing = [str(path) for path in files.values() if not path.is_file()]
    if missing:
        sys.exit(f"make_study: these packages no longer bring {', '.join(missing)}")
    return files


def main(dicom_root):
    files = sources()
    for subject, sessions in SESSIONS.items():
        for session in sessions:
            for name, source in files.items():
                target = dicom_root / subject / session / name
                if target.exists():
                    continue
                target.parent.mkdir(parents=True, exist_ok=True)
                opener = gzip.open if source.suffix == ".gz" else open
                with opener(source, "rb") as read, open(target, "wb") as write:
                    shutil.copyfileobj(read, write)


main(Path(sys.argv[1]))
