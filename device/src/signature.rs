//! What a kernel says of its parameters: their types and names, how it reads them, what it expects of their shapes.

use crate::abi::KernelArg;
use crate::kernel::{Copies, Kernel};

/// The types of a kernel's parameters but for its `Cta`: a tuple of at most 16.
pub trait Parameters {
    /// What the host writes for each.
    type Abis: Copy;
}

macro_rules! parameters {
    ($($P:ident)*) => {
        impl<$($P: KernelArg),*> Parameters for ($($P,)*) {
            type Abis = ($($P::Abi,)*);
        }
    };
}

/// Tuples of the first parameters, of as many as there are.
macro_rules! up_to {
    ([$($first:ident)*]) => {
        parameters!($($first)*);
    };
    ([$($first:ident)*] $next:ident $($rest:ident)*) => {
        parameters!($($first)*);
        up_to!([$($first)* $next] $($rest)*);
    };
}
up_to!([] A B C D E F G H I J K L M N O P);

/// Something that a kernel expects of its arguments: `expects(…)` of `#[kernel]`.
#[derive(Clone, Copy, Debug)]
pub struct Expectation {
    /// The condition as the kernel's author wrote it.
    pub text: &'static str,
    /// Which parameters it is about, in the order in which they stand there, as indices of [`Signature::NAMES`].
    pub parameters: &'static [usize],
}

/// What `#[kernel]` says of its function's parameters.
pub trait Signature: Kernel {
    /// Their types, but for the `Cta`, which the host does not pass.
    type Parameters: Parameters;
    /// Their names.
    const NAMES: &'static [&'static str];
    /// How tiles of its tensors are copied into its stages, and so which tensors it can read.
    const COPIES: Copies;

    /// The arguments as one block.
    fn pack(abis: <Self::Parameters as Parameters>::Abis) -> Self::Args;

    /// The first of the kernel's expectations that these arguments do not meet.
    fn unmet(args: &Self::Args) -> Option<&'static Expectation>;
}

/// A kernel whose function is safe: with tensors that it can read, it touches nothing but what is inside them.
///
/// # Safety
/// The kernel is sound with all arguments of its parameters' types, on any grid, but for two CTAs that store to one place.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not known to be safe to launch",
    label = "its function is an `unsafe fn`, or the type is generic here and lacks the bound `SafeKernel`",
    note = "launch an unsafe kernel by `unsafe {{ function.launch_with(…) }}`"
)]
pub unsafe trait SafeKernel: Signature {}
