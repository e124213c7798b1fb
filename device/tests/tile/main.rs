//! What tile operations decide on the host.

mod raster;
