//! What is done to scores before their softmax.

use tilewright::ops::Attention;

/// The scale of scores, which keys a query sees, and a cap.
///
/// The last query is aligned with the last key, as in candle-flash-attn.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Scores {
    scale: f32,
    left: Option<usize>,
    right: Option<usize>,
    softcap: Option<f32>,
}

impl Scores {
    /// `scale` Q Kᵀ; every query sees every key.
    pub fn new(scale: f32) -> Self {
        Scores { scale, left: None, right: None, softcap: None }
    }
    /// A query sees the keys up to its own.
    pub fn causal(self) -> Self {
        Scores { right: Some(0), ..self }
    }
    /// A query sees so many keys before and behind its own; `None` is no limit.
    pub fn window(self, left: Option<usize>, right: Option<usize>) -> Self {
        Scores { left, right, ..self }
    }
    /// Scores s become `cap` tanh(s / `cap`); 0 is none.
    pub fn softcap(self, cap: f32) -> Self {
        Scores { softcap: Some(cap).filter(|&cap| cap != 0.0), ..self }
    }

    /// As candle-flash-attn takes `causal`.
    pub(super) fn causal_if(self, causal: bool) -> Self {
        if causal { self.causal() } else { self }
    }

    /// With windows that exceed the keys taken as no limit.
    pub(super) fn within(self, keys: usize) -> Self {
        let limit = |window: Option<usize>| window.filter(|&window| window <= keys);
        Scores { left: limit(self.left), right: limit(self.right), ..self }
    }

    /// tilewright's attention with them.
    pub(super) fn attention<'a>(&self) -> Attention<'a> {
        let mut attention = Attention::new().scale(self.scale);
        if let (Some(left), right) = (self.left, self.right.unwrap_or(usize::MAX)) {
            attention = attention.window(left, right);
        } else if let Some(right @ 1..) = self.right {
            attention = attention.window(usize::MAX, right);
        }
        if self.right == Some(0) {
            attention = attention.causal();
        }
        match self.softcap {
            Some(cap) => attention.softcap(cap),
            None => attention,
        }
    }
}
