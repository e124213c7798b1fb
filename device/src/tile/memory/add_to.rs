//! Atomic additions: what can be added where.

/// What can be added to `D`, atomically.
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be added to `{D}` atomically",
    note = "fragments of f32, i32, f16 and bf16 are added to a tile of a `GlobalMut` of their type, or to rows that it scatters; values of \
            rows and columns to a tile of one column or row"
)]
pub trait AddTo<D> {
    /// Adds: what [`atomic_add`] calls.
    fn add_to(self, to: D);
}

/// Adds a fragment, or values of rows or columns, to a tile in global memory, each element atomically: other CTAs may add to the same ones
/// at the same time. What lies outside of the tensor is not touched.
///
/// Sums are rounded after each addition, in an order that differs from launch to launch: of floating-point numbers, the result differs in
/// the last bits. Pairs of f16 and bf16 take one instruction where their address allows it; bf16 are added from Hopper on.
///
/// ```
/// # use tilewright_device::tile::*;
/// /// C += the product of a share of the depth that this CTA has.
/// fn add_share<L: FragmentLayout<128, 128>>(acc: Fragment<f32, 128, 128, L>, c: &mut GlobalMut<f32, 2>) {
///     atomic_add(acc, c.tile([block_x(), block_y()]));
/// }
/// ```
#[inline(always)]
pub fn atomic_add<S: AddTo<D>, D>(from: S, to: D) {
    from.add_to(to)
}
