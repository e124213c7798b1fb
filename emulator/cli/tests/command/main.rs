//! Drives the command `tilewright-emulator`.

mod command;
mod faults;
mod listed;
mod results;
mod usage;
