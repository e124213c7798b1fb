//! The operators: each checks its arguments, chooses a kernel, and launches it.
