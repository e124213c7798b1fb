//! The next token, of logits.

use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};

/// Draws tokens, the same ones for the same seed.
pub struct Sampler {
    temperature: f64,
    top_p: f64,
    random: StdRng,
}

impl Sampler {
    /// With a temperature of 0 the token is the likeliest one. Others are drawn from the likeliest ones that have `top_p` of the probability together.
    pub fn new(temperature: f64, top_p: f64, seed: u64) -> Self {
        Sampler { temperature, top_p, random: StdRng::seed_from_u64(seed) }
    }

    pub fn draw(&mut self, logits: &[f32]) -> u32 {
        let likelier = |&a: &usize, &b: &usize| logits[b].total_cmp(&logits[a]);
        let mut order: Vec<usize> = (0..logits.len()).collect();
        if self.temperature <= 0.0 {
            return order.into_iter().min_by(likelier).unwrap_or(0) as u32;
        }
        order.sort_by(likelier);
        let (drawn, temperature) = (self.random.random::<f64>(), self.temperature);
        let most = order.first().map_or(0.0, |&token| f64::from(logits[token]));
        let weight = |token: usize| ((f64::from(logits[token]) - most) / temperature).exp();
        let all: f64 = order.iter().map(|&token| weight(token)).sum();
        let mut sum = 0.0;
        let kept = order.iter().take_while(|&&token| {
            let before = sum;
            sum += weight(token);
            before < self.top_p * all
        });
        let kept: Vec<usize> = kept.copied().collect();
        let mut left = drawn * kept.iter().map(|&token| weight(token)).sum::<f64>();
        let chosen = kept.iter().find(|&&token| {
            left -= weight(token);
            left < 0.0
        });
        chosen.or(kept.last()).map_or(0, |&token| token as u32)
    }
}
