//! Job arrays on a real Slurm.
