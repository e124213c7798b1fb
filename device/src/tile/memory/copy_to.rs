//! Copies: what can be copied where.

/// A source that can be copied to `D`.
#[diagnostic::on_unimplemented(message = "no copy from `{Self}` to `{D}`")]
pub trait CopyTo<D> {
    /// Copies: what [`copy`] calls. All threads of the CTA do so alike; those that hold nothing of either end return.
    fn copy_to(self, to: D);
}

/// Copies a tile. Elements outside a tensor read as zero, and are not stored.
#[inline(always)]
pub fn copy<S: CopyTo<D>, D>(from: S, to: D) {
    from.copy_to(to)
}
