//! What the host passes for a kernel's parameters: views for tensors, numbers as they are.

use tilewright_device::abi::{GlobalAbi, GlobalArg, KernelArg, Plain, StridedAbi};
use tilewright_device::kernel::Copies;
use tilewright_device::signature::{Expectation, Parameters, Signature};
use tilewright_device::tile::{
    self, Global, GlobalMut, InBlock, InPlace, List, ListAbi, Unmapped, UnmappedMut,
};

use crate::tensor::{Named, Untyped, check, of_shape};
use crate::{Arch, Device, Element, Error, Result, TensorView, TensorViewMut};

#[cfg(test)]
mod tests;

/// A kernel's parameter that a value is to be passed for.
#[derive(Clone, Copy, Debug)]
pub struct Parameter<'a> {
    device: &'a Device,
    kernel: &'static str,
    name: &'static str,
    copies: Copies,
    /// Whether the kernel's architecture has a TMA unit.
    tma: bool,
}

impl Parameter<'_> {
    /// The name that the kernel's function gives it.
    pub fn name(&self) -> &'static str {
        self.name
    }

    /// The argument of a tensor; checks that the kernel can read one that it may copy into its stages.
    fn tensor<T, G: GlobalArg<RANK>, const RANK: usize>(
        &self,
        view: Untyped,
        read: bool,
    ) -> Result<GlobalAbi<T, RANK>> {
        if view.layout.rank() != RANK {
            let allowed = format!("of {RANK} dimensions");
            return Err(Error::argument(self.name, of_shape(view.layout.shape()), allowed));
        }
        let boxes = if self.tma { [G::BOX_ROWS, G::BOX_PLANES] } else { [0, 1] };
        let abi = view.boxes::<T, RANK>(self.device.backend(), G::ROW_MAJOR, boxes)?;
        // A BOX of 0 says that it is never copied into a stage.
        if read && G::BOX_ROWS > 0 {
            self.expect_readable(&view, &abi, G::ROW_MAJOR)?;
        }
        Ok(abi)
    }

    fn expect_readable<T, const RANK: usize>(
        &self,
        view: &Untyped,
        abi: &GlobalAbi<T, RANK>,
        row_major: bool,
    ) -> Result<()> {
        let line = if row_major { RANK - 1 } else { RANK - 2 };
        let whole = (view.layout.shape()[line] * view.dtype.bytes()).is_multiple_of(16);
        let readable = match self.copies {
            Copies::Elements => true,
            Copies::Pieces => abi.align == 16 && whole,
            Copies::Boxes => abi.tma == 1,
        };
        if readable {
            return Ok(());
        }
        let unit = view.layout.shape()[line] <= 1 || view.layout.strides()[line] == 1;
        let reason = if !unit && row_major {
            "it reads the tensor row-major, and its rows are not contiguous"
        } else if !unit {
            "it reads the tensor column-major, and its columns are not contiguous: pass a row-major one transposed"
        } else if abi.align < 16 {
            "its address or the distance between its lines is not a multiple of 16 bytes"
        } else if self.copies == Copies::Pieces {
            "its lines are not a multiple of 16 bytes long"
        } else if view.layout.len() == 0 {
            "it is empty, and TMA addresses nothing empty"
        } else {
            "TMA cannot address it"
        };
        Err(Error::Unreadable { kernel: self.kernel, argument: self.name, reason })
    }
}

/// What the host passes for a kernel's parameter of type `P`.
///
/// | parameter | argument |
/// | --- | --- |
/// | `Global<T, RANK, …>` | [`TensorView<T>`](TensorView) or a reference to one, of `RANK` dimensions |
/// | `GlobalMut<T, RANK, …>` | [`TensorViewMut<T>`](TensorViewMut) or a mutable reference to one, of `RANK` dimensions |
/// | `Unmapped<T, RANK>` | as for `Global<T, RANK>`, of any strides |
/// | `UnmappedMut<T, RANK>` | as for `GlobalMut<T, RANK>`, of any strides |
/// | `InPlace<P>`, `InBlock<P>` | what is passed for `P` |
/// | `List` | [`TensorView<u32>`](TensorView), contiguous and aligned to 16 bytes |
/// | numbers, `RasterOrder`, what else is [`Plain`] | itself |
///
/// # Safety
/// What the host writes is sound for any kernel that is a safe function: memory that it refers to is [`tensor`](Self::tensor)'s.
pub unsafe trait Argument<P: KernelArg> {
    /// The memory that the kernel uses through it.
    fn tensor(&self, name: &'static str) -> Option<Named<'_>>;

    /// What is written into the kernel's block of arguments.
    ///
    /// Fails where the kernel cannot use it so, with an error that names the parameter.
    fn abi(&self, parameter: &Parameter<'_>) -> Result<P::Abi>;

    /// What it was, for an error about it.
    fn describe(&self) -> String;
}

// SAFETY: numbers, by which no safe kernel finds memory.
#[diagnostic::do_not_recommend]
unsafe impl<P: Plain> Argument<P> for P {
    fn tensor(&self, _: &'static str) -> Option<Named<'_>> {
        None
    }
    fn abi(&self, _: &Parameter<'_>) -> Result<P> {
        Ok(*self)
    }
    fn describe(&self) -> String {
        format!("{self:?}")
    }
}

macro_rules! in_place {
    ($($In:ident)*) => { $(
        // SAFETY: that of the same number passed as it is.
        #[diagnostic::do_not_recommend]
        unsafe impl<P: Plain> Argument<$In<P>> for P {
            fn tensor(&self, _: &'static str) -> Option<Named<'_>> {
                None
            }
            fn abi(&self, _: &Parameter<'_>) -> Result<P> {
                Ok(*self)
            }
            fn describe(&self) -> String {
                format!("{self:?}")
            }
        }
    )* };
}
in_place!(InPlace InBlock);

macro_rules! tensors {
    ($Global:ident, $named:ident, $read:literal: $($View:ty),*) => {
        tensors!(@ $Global, $named, $read, [Global_ InPlace InBlock], [$($View),*]);
    };
    (@ $Global:ident, $named:ident, $read:literal, [$($In:ident)*], $Views:tt) => {
        $( tensors!(@@ $Global, $named, $read, $In, $Views); )*
    };
    (@@ $Global:ident, $named:ident, $read:literal, $In:ident, [$($View:ty),*]) => { $(
        // SAFETY: the kernel is told the view's address, shape and strides; it reads only what its copies can, or any strides.
        #[diagnostic::do_not_recommend]
        unsafe impl<T: Element + tile::Element, O: tile::Major, const RANK: usize, const BOX: usize>
            Argument<$In<$Global<T, RANK, O, BOX>>> for $View
        {
            fn tensor(&self, name: &'static str) -> Option<Named<'_>> {
                Some(Named::$named(name, self))
            }
            fn abi(&self, parameter: &Parameter<'_>) -> Result<GlobalAbi<T, RANK>> {
                parameter.tensor::<T, $Global<T, RANK, O, BOX>, RANK>(self.untyped(), $read)
            }
            fn describe(&self) -> String {
                of_shape(self.shape())
            }
        }
    )* };
}
macro_rules! unmapped {
    ($Parameter:ident, $Global:ident, $named:ident: $($View:ty),*) => { $(
        // SAFETY: the kernel is told the view's address, shape and strides, and reads any.
        #[diagnostic::do_not_recommend]
        unsafe impl<T: Element + tile::Element, const RANK: usize> Argument<$Parameter<T, RANK>> for $View {
            fn tensor(&self, name: &'static str) -> Option<Named<'_>> {
                Some(Named::$named(name, self))
            }
            fn abi(&self, parameter: &Parameter<'_>) -> Result<StridedAbi<T, RANK>> {
                let tensor = parameter.tensor::<T, $Global<T, RANK, tile::RowMajor, 0>, RANK>(self.untyped(), false);
                tensor.map(StridedAbi::from)
            }
            fn describe(&self) -> String {
                of_shape(self.shape())
            }
        }
    )* };
}
unmapped!(Unmapped, Global, read: TensorView<'_, T>, &TensorView<'_, T>);
unmapped!(UnmappedMut, GlobalMut, written: TensorViewMut<'_, T>, &mut TensorViewMut<'_, T>);

/// The parameter itself, among the ways in which it is passed.
type Global_<P> = P;
tensors!(Global, read, true: TensorView<'_, T>, &TensorView<'_, T>);
tensors!(GlobalMut, written, false: TensorViewMut<'_, T>, &mut TensorViewMut<'_, T>);

macro_rules! lists {
    ($($View:ty),*) => { $(
        // SAFETY: as many numbers as the view has, contiguous and aligned as lists are.
        #[diagnostic::do_not_recommend]
        unsafe impl Argument<List> for $View {
            fn tensor(&self, name: &'static str) -> Option<Named<'_>> {
                Some(Named::read(name, self))
            }
            fn abi(&self, parameter: &Parameter<'_>) -> Result<ListAbi> {
                let (address, len) = (self.address(), u32::try_from(self.len()));
                match len {
                    Ok(len) if self.is_contiguous() && address.is_multiple_of(16) => {
                        Ok(ListAbi { address, len, padding: 0 })
                    }
                    _ => {
                        let was = format!("at {address:#x}, {}", Argument::<List>::describe(self));
                        let allowed = "contiguous, aligned to 16 bytes, of fewer than 2^32 numbers";
                        Err(Error::argument(parameter.name, was, allowed))
                    }
                }
            }
            fn describe(&self) -> String {
                of_shape(self.shape())
            }
        }
    )* };
}
lists!(TensorView<'_, u32>, &TensorView<'_, u32>);

/// The arguments of the kernel `K`: a tuple of as many as it has parameters, each an [`Argument`] of its parameter.
///
/// ```
/// use tilewright::{Device, KernelSet, Result, TensorView, TensorViewMut, f16};
/// use tilewright_device::kernel;
/// use tilewright_device::tile::{Global, GlobalMut};
///
/// #[kernel(threads = 128, expects(x.shape() == y.shape()))]
/// fn scale(x: Global<f16, 2>, mut y: GlobalMut<f16, 2>, by: f32) {
///     // …
/// #   let _ = (x, &mut y, by);
/// }
///
/// fn launch(
///     on: &Device,
///     set: &'static KernelSet,
///     x: &TensorView<'_, f16>,
///     y: &mut TensorViewMut<'_, f16>,
/// ) -> Result<()> {
///     on.kernel::<scale>(set)?.launch(&on.default_stream(), [8, 1, 1], (x, y, 0.5))
/// }
/// ```
///
/// What is not of the parameters' types does not compile. An argument is missing:
///
/// ```compile_fail,E0308
/// # use tilewright::{Device, KernelSet, Result, TensorView, TensorViewMut, f16};
/// # use tilewright_device::kernel;
/// # use tilewright_device::tile::{Global, GlobalMut};
/// # #[kernel(threads = 128)]
/// # fn scale(x: Global<f16, 2>, mut y: GlobalMut<f16, 2>, by: f32) { let _ = (x, &mut y, by); }
/// # fn launch(on: &Device, set: &'static KernelSet, x: &TensorView<'_, f16>, y: &mut TensorViewMut<'_, f16>) -> Result<()> {
/// on.kernel::<scale>(set)?.launch(&on.default_stream(), [8, 1, 1], (x, y))
/// # }
/// ```
///
/// The element type is another:
///
/// ```compile_fail,E0277
/// # use tilewright::{Device, KernelSet, Result, TensorView, TensorViewMut, f16};
/// # use tilewright_device::kernel;
/// # use tilewright_device::tile::{Global, GlobalMut};
/// # #[kernel(threads = 128)]
/// # fn scale(x: Global<f16, 2>, mut y: GlobalMut<f16, 2>, by: f32) { let _ = (x, &mut y, by); }
/// # fn launch(on: &Device, set: &'static KernelSet, x: &TensorView<'_, f32>, y: &mut TensorViewMut<'_, f16>) -> Result<()> {
/// on.kernel::<scale>(set)?.launch(&on.default_stream(), [8, 1, 1], (x, y, 0.5))
/// # }
/// ```
///
/// What is only read cannot be written:
///
/// ```compile_fail,E0277
/// # use tilewright::{Device, KernelSet, Result, TensorView, TensorViewMut, f16};
/// # use tilewright_device::kernel;
/// # use tilewright_device::tile::{Global, GlobalMut};
/// # #[kernel(threads = 128)]
/// # fn scale(x: Global<f16, 2>, mut y: GlobalMut<f16, 2>, by: f32) { let _ = (x, &mut y, by); }
/// # fn launch(on: &Device, set: &'static KernelSet, x: &TensorView<'_, f16>, y: &TensorView<'_, f16>) -> Result<()> {
/// on.kernel::<scale>(set)?.launch(&on.default_stream(), [8, 1, 1], (x, y, 0.5))
/// # }
/// ```
///
/// Numbers are not converted:
///
/// ```compile_fail,E0277
/// # use tilewright::{Device, KernelSet, Result, TensorView, TensorViewMut, f16};
/// # use tilewright_device::kernel;
/// # use tilewright_device::tile::{Global, GlobalMut};
/// # #[kernel(threads = 128)]
/// # fn scale(x: Global<f16, 2>, mut y: GlobalMut<f16, 2>, by: f32) { let _ = (x, &mut y, by); }
/// # fn launch(on: &Device, set: &'static KernelSet, x: &TensorView<'_, f16>, y: &mut TensorViewMut<'_, f16>) -> Result<()> {
/// on.kernel::<scale>(set)?.launch(&on.default_stream(), [8, 1, 1], (x, y, 1u32))
/// # }
/// ```
///
/// And the kernel of an `unsafe fn` is launched by [`launch_with`](crate::Function::launch_with) alone:
///
/// ```compile_fail,E0277
/// # use tilewright::{Device, KernelSet, Result};
/// # use tilewright_device::kernel;
/// /// # Safety
/// /// A number is at the address.
/// #[kernel(threads = 32)]
/// unsafe fn follow(address: u64) {
///     // …
/// #   let _ = address;
/// }
/// # fn launch(on: &Device, set: &'static KernelSet) -> Result<()> {
/// on.kernel::<follow>(set)?.launch(&on.default_stream(), [8, 1, 1], (64u64,))
/// # }
/// ```
pub trait Arguments<K: Signature>: Tuple<K> {}

// One implementation for all tuples: rustc would list those of each length beside every argument that is wrong.
impl<K: Signature, V: Tuple<K>> Arguments<K> for V {}

/// A kernel that has as many parameters as the tuple `A` has elements: a bound of launches that are generic over the kernel.
///
/// The kernel's type implies the tuple's length before its elements are looked at, so that rustc says which length was expected.
///
/// ```
/// use tilewright::{Arguments, Device, Instance, KernelSet, Result, SafeKernel, Takes};
///
/// fn in_one_cta<K, A>(device: &Device, set: &'static KernelSet, arguments: A) -> Result<()>
/// where
///     K: Instance + SafeKernel + Takes<A>,
///     A: Arguments<K>,
/// {
///     device.kernel::<K>(set)?.launch(&device.default_stream(), [1, 1, 1], arguments)
/// }
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not known to take as many arguments as there are in `{A}`",
    note = "where the kernel is generic, its bounds are `K: SafeKernel + Takes<A>` and those of its arguments `A: Arguments<K>`"
)]
pub trait Takes<A>: Signature {}

/// What [`Arguments`] are: a tuple of as many as there are parameters.
#[doc(hidden)]
pub trait Tuple<K: Signature> {
    /// What is written for each; all of them are checked.
    fn abis(&self, names: &'static [&'static str], of: Parameter<'_>) -> Result<Abis<K>>;

    /// What each was, for an error about them.
    fn describe(&self, index: usize) -> String;
}

type Abis<K> = <<K as Signature>::Parameters as Parameters>::Abis;

/// What an [`Argument`] is, as errors tell it.
#[doc(hidden)]
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be passed for a kernel's parameter of type `{P}`: a `Global` takes a `TensorView` of its element type (`x.view()`), a `GlobalMut` a `TensorViewMut` (`y.view_mut()`), a number itself"
)]
pub trait Fits<P: KernelArg>: Argument<P> {}

// Not recommended: rustc then points at the wrong argument alone, without the call.
#[diagnostic::do_not_recommend]
impl<P: KernelArg, V: Argument<P>> Fits<P> for V {}

macro_rules! arguments {
    ($($i:tt $P:ident $V:ident)*) => {
        impl<Of: Signature<Parameters = ($($P,)*)>, $($P: KernelArg, $V: Fits<$P>),*> Tuple<Of> for ($($V,)*) {
            fn abis(&self, names: &'static [&'static str], of: Parameter<'_>) -> Result<($($P::Abi,)*)> {
                let _ = names;
                let tensors: &[Option<Named<'_>>] = &[$(self.$i.tensor(names[$i])),*];
                check(of.device, tensors.iter().flatten().copied())?;
                Ok(($(self.$i.abi(&Parameter { name: names[$i], ..of })?,)*))
            }
            fn describe(&self, index: usize) -> String {
                match index {
                    $($i => self.$i.describe(),)*
                    _ => String::new(),
                }
            }
        }

        #[diagnostic::do_not_recommend]
        impl<Of: Signature<Parameters = ($($P,)*)>, $($P: KernelArg, $V),*> Takes<($($V,)*)> for Of {}
    };
}

/// Tuples of the first arguments, of as many as there are.
macro_rules! up_to {
    ([$($first:tt)*]) => {
        arguments!($($first)*);
    };
    ([$($first:tt)*] ($($next:tt)*) $($rest:tt)*) => {
        arguments!($($first)*);
        up_to!([$($first)* $($next)*] $($rest)*);
    };
}
up_to!([] (0 A VA) (1 B VB) (2 C VC) (3 D VD) (4 E VE) (5 F VF) (6 G VG) (7 H VH) (8 I VI) (9 J VJ)
    (10 K VK) (11 L VL) (12 M VM) (13 N VN) (14 O VO) (15 P VP));

/// The block of arguments of a kernel with the parameters of `K`, all of them checked.
pub(super) fn block<K: Signature>(
    device: &Device,
    kernel: &'static str,
    arguments: &impl Arguments<K>,
) -> Result<K::Args> {
    let tma = K::ARCH == Arch::Sm90a;
    let of = Parameter { device, kernel, name: "", copies: K::COPIES, tma };
    let args = K::pack(arguments.abis(K::NAMES, of)?);
    let Some(&Expectation { text, parameters }) = K::unmet(&args) else { return Ok(args) };
    let (first, others) = parameters.split_first().expect("an expectation is about some parameter");
    let mut allowed = format!("such that {text}");
    for (i, &other) in others.iter().enumerate() {
        let joint = if i == 0 { ", with" } else { " and" };
        allowed += &format!("{joint} `{}` {}", K::NAMES[other], arguments.describe(other));
    }
    Err(Error::argument(K::NAMES[*first], arguments.describe(*first), allowed))
}
