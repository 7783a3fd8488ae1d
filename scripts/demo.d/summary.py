#!/usr/bin/env python3
#SBATCH --time=00:10:00
#SBATCH --cpus-per-task=1
"""Write the measurements of all sessions of one subject to one table.

Argument: subject.
"""

import json
import os
import sys
from pathlib import Path

import pandas

subject = sys.argv[1]
qc = Path(os.environ["SNBB_DERIVATIVES_ROOT"]) / "qc" / subject
output = Path(os.environ["SNBB_OUTPUT_DIR"])

rows = []
for path in sorted(qc.glob("ses-*/*_qc.json")):
    for image in json.loads(path.read_text()):
        rows.append({"session": path.parent.name, **image})
table = pandas.DataFrame(rows)
table["shape"] = ["x".join(map(str, shape)) for shape in table["shape"]]
table["voxel_mm"] = ["x".join(map(str, size)) for size in table["voxel_mm"]]

output.mkdir(parents=True, exist_ok=True)
hidden = output / ".summary.tsv"
table.to_csv(hidden, sep="\t", index=False, na_rep="n/a")
os.replace(hidden, output / "summary.tsv")
print(f"{subject}: {table['session'].nunique()} sessions, {len(table)} images")
