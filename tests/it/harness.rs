//! What the tests share: a study on disk, the program, its output.
