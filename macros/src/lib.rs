//! The attribute that makes a function a kernel, the macro that gives kernels their entry points, and those that print and
//! assert in kernels.
//!
//! Use them through `tilewright_device`, which documents the traits that they implement and re-exports all.

mod instance;
mod kernel;
mod list;
mod options;
mod print;
mod signature;
#[cfg(test)]
mod tests;

use proc_macro::TokenStream;

/// Makes a function a kernel.
///
/// The function stays as it is; beside it stands a type of the same name with the same generic parameters,
/// which implements `Kernel`. Launch configuration is given by options:
///
/// - `program = P`: how the warps share the body; a type that implements `Program`, which says the threads
///   and the architecture. Or, without a program, `threads = N`, and the body runs in every thread.
/// - `arch = Arch::Sm90a`: the architecture, if not the program's; `Arch::Sm80` where nothing says more.
/// - `shared = BYTES`: dynamic shared memory that the kernel has at least. What its `Cta` hands out is counted by the builder: for
///   kernels that take shared memory by themselves, or as much as a number of the launch says.
/// - `cluster = [X, Y, Z]`: CTAs of a cluster, `[1, 1, 1]` by default.
/// - `min_ctas = N`: CTAs that an SM must be able to hold, by default the program's, or 1.
/// - `local = true`: the kernel may use local memory; the builder refuses it otherwise.
/// - `expects(CONDITION, …)`: what a launch checks before, over the parameters by their names: tensors have `rows()`,
///   `cols()` and `shape()`, numbers are themselves. `expects(x.shape() == y.shape(), x.cols() <= COLS as u32)`.
///
/// Every other option is a constant expression over the function's generic parameters, of type `u32` (`bool` for
/// `local`). Arguments are of types that implement `KernelArg`; the host passes them as a tuple.
///
/// The kernel of a safe function is safe to launch. Make the function `unsafe` where it relies on what no type says, such as
/// addresses passed as numbers.
///
/// A kernel without generic parameters has an entry point of its own name at once. The others are given
/// theirs by [`kernels!`].
///
/// ```text
/// #[kernel(threads = 256)]
/// pub fn scale(x: GlobalMut<f32, 2>, by: f32) { /* … */ }
/// ```
#[proc_macro_attribute]
pub fn kernel(options: TokenStream, item: TokenStream) -> TokenStream {
    kernel::expand(options.into(), item.into()).unwrap_or_else(syn::Error::into_compile_error).into()
}

/// Gives kernels with chosen parameters their entry points, and the host a table of them.
///
/// ```text
/// kernels! {
///     /// The kernels of this crate.
///     pub static KERNELS: Tile;
///
///     for T in [f16, bf16], (BM, BN) in [(128, 256), (128, 128)] {
///         sm_90: [gemm_ T _ BM x BN]: gemm<WarpSpecialized<TwoConsumers>, T, BM, BN>;
///     }
///     sm_80: gemm_small: gemm<Multistage<4>, f16, 64, 64>;
/// }
/// ```
///
/// A row is the entry point's name and the kernel's type. A name in brackets is pasted together from identifiers and
/// literals. `sm_80:` or `sm_90:` leaves the kernel out of builds for any other architecture before it is compiled;
/// it must agree with the kernel's own `ARCH`. Without it the kernel's `ARCH` decides.
///
/// `for` repeats the rows between its braces with each value in place of its variable, in names as in types; several loops
/// after one `for` are nested. `(A, B) in [(x, y), …]` replaces several variables at a time; `let VALUES = [a, b];` names a list for
/// the loops that follow.
///
/// With `static NAME: DESCRIPTION;` in front, the host has the table `NAME: &[Listed<DESCRIPTION>]`, a line for each row in this
/// order; the kernels then implement `Described<Description = DESCRIPTION>`.
#[proc_macro]
pub fn kernels(input: TokenStream) -> TokenStream {
    list::expand(input.into()).unwrap_or_else(syn::Error::into_compile_error).into()
}

/// Prints a line from a kernel, for each thread that comes by: on the emulator to the standard error stream, on a GPU by the driver to
/// the standard output stream when the host waits.
///
/// The line begins with the author's file and line, the kernel, the CTA and the thread. The text is written as for
/// `format!`, with `{}`, `{name}`, `{:x}`, `{:e}`, a width and a precision (`{:8.3}`), over numbers, `bool` and pointers; the numbers look as C's
/// `printf` writes them: six digits of a float, 1 or 0 for a `bool`.
///
/// It is code in builds with `KernelBuilder::debug` or `TILEWRIGHT_DEBUG=1` alone, in others nothing at all.
///
/// ```text
/// if block_x() == 0 {
///     device_print!("sum {sum} of row {}, scale {scale:.3}", thread_x());
/// }
/// ```
#[proc_macro]
pub fn device_print(input: TokenStream) -> TokenStream {
    print::print(input.into()).unwrap_or_else(syn::Error::into_compile_error).into()
}

/// Stops the kernel where a condition does not hold, with a message as [`device_print!`]'s: `device_assert!(CONDITION)` or
/// `device_assert!(CONDITION, TEXT, …)`.
///
/// It is code in builds with `KernelBuilder::debug` or `TILEWRIGHT_DEBUG=1` alone; in others the condition is not computed.
#[proc_macro]
pub fn device_assert(input: TokenStream) -> TokenStream {
    print::assert(input.into()).unwrap_or_else(syn::Error::into_compile_error).into()
}
