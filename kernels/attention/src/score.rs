//! What is done to scores before the softmax.

use core::f32::consts::LOG2_E;

use tilewright_device::layout::FragmentLayout;
use tilewright_device::tile::{Fragment, InPlace, Rows, math};

use crate::terms::HeadTerms;

/// A function of each score.
pub trait Score: Copy + Default + 'static {
    /// Its name.
    const NAME: &'static str;
    /// Whether anything is done to scores: a cap, or a bias.
    const CHANGES: bool;

    /// `score` as the softmax takes it.
    fn apply(score: f32, cap: f32) -> f32;
}

/// Nothing.
#[derive(Clone, Copy, Debug, Default)]
pub struct Plain;

/// tanh(cap score), which keeps scores between -1 and 1 ("softcap", as in Gemma 2), where there is a cap; less the distance of keys times a slope
/// (ALiBi; Press et al. 2022), where heads have slopes; with a bias of its own: a launch says which.
#[derive(Clone, Copy, Debug, Default)]
pub struct Capped;

impl Score for Plain {
    const NAME: &'static str = "plain";
    const CHANGES: bool = false;

    #[inline(always)]
    fn apply(score: f32, _cap: f32) -> f32 {
        score
    }
}

impl Score for Capped {
    const NAME: &'static str = "capped";
    const CHANGES: bool = true;

    #[inline(always)]
    fn apply(score: f32, cap: f32) -> f32 {
        // 1 - 2 / (1 + e^2x): `tanh.approx` is too coarse for what is exponentiated.
        let twice = math::ex2(cap * score * (2.0 * LOG2_E));
        1.0 - 2.0 * math::rcp(1.0 + twice)
    }
}

/// Scores of a block as the softmax takes them, before a bias and a mask: capped if `cap` is not 0, less the distances of `slopes` if `terms` have any. `own` are the
/// keys that the rows' queries are aligned with, counted from the block's first.
#[inline(always)]
pub(crate) fn changed<F: Score, const M: usize, const N: usize, L: FragmentLayout<M, N>>(
    s: Fragment<f32, M, N, L>,
    cap: f32,
    terms: InPlace<HeadTerms>,
    slopes: &Rows<f32, M, N, L>,
    own: impl FnOnce() -> Rows<i32, M, N, L>,
) -> Fragment<f32, M, N, L> {
    if !F::CHANGES {
        return s;
    }
    let s = if cap != 0.0 { s.map(|s| F::apply(s, cap)) } else { s };
    if terms.get().sloped() { s.less_distance(slopes, &own()) } else { s }
}
