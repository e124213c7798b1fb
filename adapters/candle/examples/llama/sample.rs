//! The next token, of logits.

/// Draws tokens, the same ones for the same seed.
pub struct Sampler {
    temperature: f64,
    top_p: f64,
    state: u64,
}

impl Sampler {
    /// With a temperature of 0 the token is the likeliest one. Others are drawn from the likeliest ones that have `top_p` of the probability together.
    pub fn new(temperature: f64, top_p: f64, seed: u64) -> Self {
        Sampler { temperature, top_p, state: seed.wrapping_mul(2).wrapping_add(1) }
    }

    pub fn draw(&mut self, logits: &[f32]) -> u32 {
        let likelier = |&a: &usize, &b: &usize| logits[b].total_cmp(&logits[a]);
        let mut order: Vec<usize> = (0..logits.len()).collect();
        if self.temperature <= 0.0 {
            return order.into_iter().min_by(likelier).unwrap_or(0) as u32;
        }
        order.sort_by(likelier);
        let (drawn, temperature) = (self.uniform(), self.temperature);
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

    /// From 0 to 1: the high bits of a linear congruential generator.
    fn uniform(&mut self) -> f64 {
        self.state =
            self.state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.state >> 11) as f64 / (1u64 << 53) as f64
    }
}
