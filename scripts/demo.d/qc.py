#!/usr/bin/env python3
#SBATCH --time=00:10:00
#SBATCH --cpus-per-task=1
"""Measure the images of one session (size, mean, spread, signal-to-noise) and write the mean diffusion image.

Arguments: subject, session, DICOM directory (not used).
"""

import json
import os
import sys
from pathlib import Path

import nibabel
import numpy

subject, session = sys.argv[1:3]
bids = Path(os.environ["SNBB_BIDS_ROOT"]) / subject / session
output = Path(os.environ["SNBB_OUTPUT_DIR"])


def measure(path):
    image = nibabel.load(path)
    data = image.get_fdata()
    sidecar = json.loads(Path(str(path).replace(".nii.gz", ".json")).read_text())
    volume = data if data.ndim == 3 else data.mean(axis=3)
    inside = volume > volume.mean()
    noise = volume[~inside].std()
    snr = float(volume[inside].mean() / noise) if inside.any() and noise > 0 else None
    return {
        "file": path.name,
        "scanner": sidecar.get("Manufacturer"),
        "echo_time": sidecar.get("EchoTime"),
        "shape": list(data.shape),
        "voxel_mm": [round(float(size), 4) for size in image.header.get_zooms()[:3]],
        "mean": round(float(data.mean()), 3),
        "sd": round(float(data.std()), 3),
        "snr": round(snr, 3) if snr is not None else None,
    }


output.mkdir(parents=True, exist_ok=True)

dwi = nibabel.load(bids / "dwi" / f"{subject}_{session}_dwi.nii.gz")
mean = nibabel.Nifti1Image(dwi.get_fdata().mean(axis=3).astype(numpy.float32), dwi.affine)
hidden = output / f".{subject}_{session}.nii.gz"
nibabel.save(mean, hidden)
os.replace(hidden, output / f"{subject}_{session}_desc-mean_dwi.nii.gz")

result = [measure(path) for path in sorted(bids.glob("*/*.nii.gz"))]
hidden = output / f".{subject}_{session}.json"
hidden.write_text(json.dumps(result, indent=2) + "\n")
os.replace(hidden, output / f"{subject}_{session}_qc.json")
print(f"{subject} {session}: {len(result)} images measured")
