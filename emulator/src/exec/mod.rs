//! Executes a launch.
//!
//! From below: [`warp`], [`cta`] and [`env`] are what a cluster is while it runs, [`result`] what an instruction comes to.
//! [`check`] and [`observe`] look at instructions before they are executed: the one refuses those that are wrong, the
//! other counts. [`instruction`] executes them, a family a file, and [`run`] lets the warps of a launch do so in turn.

mod bulk;
mod check;
mod cta;
mod env;
mod instruction;
mod joint;
pub(crate) mod launch;
mod memory;
mod observe;
pub(crate) mod printed;
mod printf;
mod result;
pub(crate) mod run;
pub(crate) mod running;
pub(crate) mod schedule;
mod warp;
