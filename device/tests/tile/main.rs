//! What tile operations decide on the host, and what kernels made of them become.

#[path = "../common/mod.rs"]
mod common;
mod compiled;
mod raster;
mod refused;
