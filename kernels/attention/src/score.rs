//! What is done to scores before the softmax.

use core::f32::consts::LOG2_E;

use tilewright_device::tile::math;

/// A function of each score.
pub trait Score: Copy + Default + 'static {
    /// Its name.
    const NAME: &'static str;

    /// Whether scores are changed at all.
    fn any(cap: f32) -> bool;

    /// `score` as the softmax takes it, where they are.
    fn apply(score: f32, cap: f32) -> f32;
}

/// Nothing.
#[derive(Clone, Copy, Debug, Default)]
pub struct Plain;

/// tanh(cap score), which keeps scores between -1 and 1 ("softcap", as in Gemma 2).
#[derive(Clone, Copy, Debug, Default)]
pub struct Capped;

/// [`Capped`], or [`Plain`] where `cap` is 0: known when the kernel runs.
#[derive(Clone, Copy, Debug, Default)]
pub struct Either;

impl Score for Plain {
    const NAME: &'static str = "plain";

    #[inline(always)]
    fn any(_cap: f32) -> bool {
        false
    }

    #[inline(always)]
    fn apply(score: f32, _cap: f32) -> f32 {
        score
    }
}

impl Score for Capped {
    const NAME: &'static str = "capped";

    #[inline(always)]
    fn any(_cap: f32) -> bool {
        true
    }

    #[inline(always)]
    fn apply(score: f32, cap: f32) -> f32 {
        // 1 - 2 / (1 + e^2x): `tanh.approx` is too coarse for what is exponentiated.
        let twice = math::ex2(cap * score * (2.0 * LOG2_E));
        1.0 - 2.0 * math::rcp(1.0 + twice)
    }
}

impl Score for Either {
    const NAME: &'static str = "either";

    #[inline(always)]
    fn any(cap: f32) -> bool {
        cap != 0.0
    }

    #[inline(always)]
    fn apply(score: f32, cap: f32) -> f32 {
        Capped::apply(score, cap)
    }
}
