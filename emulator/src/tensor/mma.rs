//! `mma.sync.m16n8kK`: products of a warp, all in registers.
//!
//! PTX ISA, "Matrix multiply-accumulate operation using mma instruction". D comes from [`Product::registers`] of warp 0.

use super::Register;
use super::element::{Accumulator, Element, Family};
use super::product::Product;
use crate::wide::twice;

/// One form of the instruction; A is row-major and B column-major, as in all its shapes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Mma {
    /// Columns of A and rows of B.
    pub(crate) k: u32,
    /// The type of A.
    pub(crate) a: Element,
    /// The type of B.
    pub(crate) b: Element,
}

impl Mma {
    /// Registers of A in a thread: 16 rows of K.
    pub(crate) fn registers_a(&self) -> usize {
        (16 * self.k * self.a.bits() / (32 * 32)) as usize
    }

    /// Registers of B in a thread: 8 columns of K.
    pub(crate) fn registers_b(&self) -> usize {
        self.registers_a() / 2
    }

    /// Floating-point or integer operations of one instruction.
    pub(crate) fn operations(&self) -> u64 {
        2 * 16 * 8 * u64::from(self.k)
    }

    /// What PTX does not have of this form.
    pub(crate) fn check(&self, accumulator: Accumulator) -> Result<(), String> {
        let Mma { k, a, b } = *self;
        let family = a.family();
        if family != b.family() || family == Family::Bits {
            return Err(format!("mma does not multiply {a:?} and {b:?}"));
        }
        // Every type has the shapes of 16 and 32 bytes of K.
        let long = 256 / a.bits();
        if k != long && k != long / 2 {
            return Err(format!("mma of {a:?} has no shape m16n8k{k}"));
        }
        if !accumulator.takes(family) {
            return Err(format!("mma does not accumulate products of {a:?} and {b:?} in {accumulator:?}"));
        }
        Ok(())
    }

    /// Takes both operands out of their registers.
    pub(crate) fn gather(&self, a: &[&Register], b: &[&Register], into: &mut Product) {
        gather(*self, a, b, into);
    }
}

twice! {
    fn gather(form: Mma, a: &[&Register], b: &[&Register], into: &mut Product) {
        into.reset(16, 8, form.k as usize);
        into.put_a_registers(0, form.a, a.iter().copied(), false);
        into.put_b_registers(form.b, b.iter().copied());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tensor::float::{self, Rounding};

    /// The bits of small numbers, exact in every type.
    fn encode(element: Element, x: i32) -> u32 {
        match element {
            Element::F16 => float::f32_to_f16(x as f32, Rounding::Nearest).into(),
            Element::Bf16 => float::f32_to_bf16(x as f32, Rounding::Nearest).into(),
            Element::Tf32 => (x as f32).to_bits(),
            Element::E4m3 => float::f32_to_e4m3(x as f32).into(),
            Element::E5m2 => float::f32_to_e5m2(x as f32).into(),
            Element::S8 | Element::U8 => x as u8 as u32,
            Element::S4 | Element::U4 => x as u32 & 15,
            Element::B1 => x as u32 & 1,
        }
    }

    fn a(row: usize, k: usize) -> i32 {
        ((row * 5 + k * 3) % 7) as i32
    }

    fn b(k: usize, column: usize) -> i32 {
        ((column * 11 + k * 13) % 5) as i32
    }

    /// (row, column) of element `i` of a lane's A, as the manual's tables of the shapes have it ("groupID" and
    /// "threadID_in_group").
    fn a_at(element: Element, long: bool, lane: usize, i: usize) -> (usize, usize) {
        let (group, thread) = (lane / 4, lane % 4);
        let odd = |odd: bool| if odd { group + 8 } else { group };
        match (element.bits(), long) {
            (16, true) => {
                (odd((2..4).contains(&i) || i >= 6), thread * 2 + (i & 1) + if i >= 4 { 8 } else { 0 })
            }
            (16, false) => (odd(i >= 2), thread * 2 + (i & 1)),
            (32, true) => (odd(i == 1 || i == 3), thread + if i >= 2 { 4 } else { 0 }),
            (32, false) => (odd(i == 1), thread),
            (8, true) => {
                (odd((4..8).contains(&i) || i >= 12), thread * 4 + (i & 3) + if i >= 8 { 16 } else { 0 })
            }
            (8, false) => (odd(i >= 4), thread * 4 + (i & 3)),
            (_, true) => {
                (odd((8..16).contains(&i) || i >= 24), thread * 8 + (i & 7) + if i >= 16 { 32 } else { 0 })
            }
            (_, false) => (odd(i >= 8), thread * 8 + (i & 7)),
        }
    }

    /// (row, column) of element `i` of a lane's B.
    fn b_at(element: Element, lane: usize, i: usize) -> (usize, usize) {
        let (group, thread) = (lane / 4, lane % 4);
        let row = match element.bits() {
            16 => thread * 2 + (i & 1) + if i >= 2 { 8 } else { 0 },
            32 => thread + if i >= 1 { 4 } else { 0 },
            8 => thread * 4 + (i & 3) + if i >= 4 { 16 } else { 0 },
            _ => thread * 8 + (i & 7) + if i >= 8 { 32 } else { 0 },
        };
        (row, group)
    }

    fn fragment(element: Element, registers: usize, value: impl Fn(usize, usize) -> i32) -> Vec<Register> {
        let per = element.per_register();
        let word = |lane, register| {
            (0..per)
                .map(|e| encode(element, value(lane, register * per + e)) << (e as u32 * element.bits()))
                .sum()
        };
        (0..registers).map(|register| std::array::from_fn(|lane| word(lane, register))).collect()
    }

    fn assert_form(form: Mma, accumulator: Accumulator) {
        form.check(accumulator).expect("a form that exists");
        let long = form.k == 256 / form.a.bits();
        let left = fragment(form.a, form.registers_a(), |lane, i| {
            let (row, k) = a_at(form.a, long, lane, i);
            a(row, k)
        });
        let right = fragment(form.b, form.registers_b(), |lane, i| {
            let (k, column) = b_at(form.b, lane, i);
            b(k, column)
        });
        let mut product = Product::default();
        form.gather(&left.iter().collect::<Vec<_>>(), &right.iter().collect::<Vec<_>>(), &mut product);
        for lane in 0..32 {
            for i in 0..4 {
                let (row, column) = (lane / 4 + if i >= 2 { 8 } else { 0 }, lane % 4 * 2 + (i & 1));
                let expected: i32 = (0..form.k as usize).map(|k| a(row, k) * b(k, column)).sum();
                let found = match accumulator {
                    Accumulator::F32 => f32::from_bits(product.register(0, i, accumulator, None)[lane]),
                    Accumulator::S32 { .. } => product.register(0, i, accumulator, None)[lane] as f32,
                    Accumulator::F16 => {
                        let pair = product.register(0, i / 2, accumulator, None)[lane];
                        float::f16_to_f32((pair >> (i % 2 * 16)) as u16)
                    }
                };
                assert_eq!(found, expected as f32, "{form:?} lane {lane} element {i}");
            }
        }
    }

    #[test]
    fn every_form() {
        use Element::*;
        let f8 = [(E4m3, E4m3), (E4m3, E5m2), (E5m2, E4m3), (E5m2, E5m2)];
        let bytes = [(S8, S8), (S8, U8), (U8, S8), (U8, U8), (S4, S4), (S4, U4), (U4, S4), (U4, U4)];
        for (a, b) in [(F16, F16), (Bf16, Bf16), (Tf32, Tf32)].into_iter().chain(f8).chain(bytes) {
            let long = 256 / a.bits();
            for k in [long, long / 2] {
                for accumulator in [Accumulator::F32, Accumulator::F16, Accumulator::S32 { saturate: false }]
                {
                    if accumulator.takes(a.family()) {
                        assert_form(Mma { k, a, b }, accumulator);
                    }
                }
            }
        }
    }

    #[test]
    fn counts_of_registers() {
        let registers = |k, element| {
            let form = Mma { k, a: element, b: element };
            (form.registers_a(), form.registers_b())
        };
        assert_eq!(registers(16, Element::F16), (4, 2));
        assert_eq!(registers(8, Element::Bf16), (2, 1));
        assert_eq!(registers(4, Element::Tf32), (2, 1));
        assert_eq!(registers(32, Element::S8), (4, 2));
        assert_eq!(registers(64, Element::U4), (4, 2));
    }

    #[test]
    fn negative_integers() {
        let form = Mma { k: 64, a: Element::S4, b: Element::S4 };
        let mut product = Product::default();
        form.gather(&[&[0x8888_8888; 32]; 4], &[&[0x7777_7777; 32]; 2], &mut product);
        let d = product.register(0, 3, Accumulator::S32 { saturate: false }, Some(&[1; 32]));
        assert_eq!(d[17] as i32, 64 * -56 + 1);
    }

    #[test]
    fn forms_that_do_not_exist() {
        let form = |k, a, b| Mma { k, a, b };
        assert!(form(32, Element::F16, Element::F16).check(Accumulator::F32).is_err());
        assert!(form(16, Element::F16, Element::Bf16).check(Accumulator::F32).is_err());
        assert!(form(16, Element::Bf16, Element::Bf16).check(Accumulator::F16).is_err());
        assert!(form(32, Element::S8, Element::S8).check(Accumulator::F32).is_err());
    }
}
