//! Digests, heartbeat, metrics, and how little `-q` says.
