//! What is computed of single elements, in f32: told by a number at the launch.

use core::f32::consts::{LN_2, LOG2_E};

use tilewright_device::tile::{Activation, math};

use crate::angle::cos_sin_of_angle;

/// A function of `INPUTS` elements.
pub trait Formula<const INPUTS: usize>: Copy {
    /// Which one of all it is.
    fn operation(self) -> Operation;
}

/// Makes an enum of some of the operations.
macro_rules! formulas {
    ($($(#[$doc:meta])* $name:ident of $inputs:literal { $($(#[$of:meta])* $op:ident,)* })*) => {
        $(
            $(#[$doc])*
            #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
            pub enum $name { $($(#[$of])* $op,)* }

            impl $name {
                /// All of them.
                pub const ALL: &[$name] = &[$($name::$op),*];
            }

            impl Formula<$inputs> for $name {
                fn operation(self) -> Operation {
                    match self { $($name::$op => Operation::$op,)* }
                }
            }
        )*

        /// What kernels compute of elements.
        #[repr(u32)]
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub enum Operation { $($($(#[$of])* $op,)*)* }

        /// `f` with the operation of this number, one of those of `INPUTS` elements: each has its own instance of `f`, so that no element asks
        /// which it is.
        #[inline(always)]
        pub(crate) fn with<const INPUTS: usize>(number: u32, mut f: impl FnMut(Operation)) {
            match number {
                $($(n if INPUTS == $inputs && n == Operation::$op as u32 => f(Operation::$op),)*)*
                _ => {}
            }
        }
    };
}

formulas! {
    /// Functions of one element.
    Unary of 1 {
        /// x.
        Identity,
        /// -x.
        Neg,
        /// |x|.
        Abs,
        /// x².
        Square,
        /// e^x.
        Exp,
        /// The natural logarithm.
        Log,
        /// The square root.
        Sqrt,
        /// One over the square root.
        Rsqrt,
        /// 1 / x.
        Recip,
        /// The sine of an angle in radians, however large.
        Sin,
        /// The cosine of an angle in radians, however large.
        Cos,
        /// The hyperbolic tangent.
        Tanh,
        /// 1 / (1 + e^-x).
        Sigmoid,
        /// max(x, 0).
        Relu,
        /// x Φ(x) with the normal distribution's Φ.
        Gelu,
        /// x / (1 + e^-x).
        Silu,
    }
    /// Functions of two elements.
    Binary of 2 {
        /// a + b.
        Add,
        /// a - b.
        Sub,
        /// a b.
        Mul,
        /// a / b.
        Div,
        /// The greater, or NaN where one is.
        Max,
        /// The lesser, or NaN where one is.
        Min,
        /// a to the power of b; of a negative a where b is an integer, and NaN else.
        Pow,
    }
    /// Functions of three elements.
    Ternary of 3 {
        /// a b + c, rounded once.
        MulAdd,
        /// b where a is not 0, and c where it is.
        Select,
    }
}

impl Operation {
    /// The function; of the inputs it uses the first ones. `exact` is not so for results of 16 bits, which show no error of 1e-5.
    #[inline(always)]
    pub(crate) fn of(self, [a, b, c]: [f32; 3], exact: bool) -> f32 {
        let exp = |x| if exact { exp(x) } else { math::ex2(x * LOG2_E) };
        match self {
            Operation::Identity => a,
            Operation::Neg => -a,
            Operation::Abs => absolute(a),
            Operation::Square => a * a,
            Operation::Exp => exp(a),
            Operation::Log => log2(a) * LN_2,
            Operation::Sqrt => sqrt(a),
            Operation::Rsqrt => math::rsqrt(a),
            Operation::Recip => 1.0 / a,
            Operation::Sin => cos_sin_of_angle(a)[1],
            Operation::Cos => cos_sin_of_angle(a)[0],
            Operation::Tanh => tanh(a),
            Operation::Sigmoid => math::rcp(1.0 + exp(-a)),
            Operation::Relu => Activation::Relu.apply(a),
            Operation::Gelu => Activation::Gelu.apply(a),
            Operation::Silu => Activation::Silu.apply(a),
            Operation::Add => a + b,
            Operation::Sub => a - b,
            Operation::Mul => a * b,
            Operation::Div => a / b,
            Operation::Max => math::max_nan(a, b),
            Operation::Min => math::min_nan(a, b),
            Operation::Pow => pow(a, b),
            Operation::MulAdd => math::fma(a, b, c),
            Operation::Select => {
                if a != 0.0 {
                    b
                } else {
                    c
                }
            }
        }
    }
}

#[inline(always)]
fn absolute(x: f32) -> f32 {
    f32::from_bits(x.to_bits() & 0x7fff_ffff)
}

/// The exponent is rounded to f32 for `ex2`; what that leaves out is a factor of its own.
#[inline(always)]
fn exp(x: f32) -> f32 {
    // Beyond are infinity and 0, as here, but of what is left of an infinite exponent comes NaN.
    let x = math::max_nan(math::min_nan(x, 256.0), -256.0);
    let exponent = x * LOG2_E;
    // The two parts of log2(e).
    let left = math::fma(x, 1.925_963e-8, math::fma(x, LOG2_E, -exponent));
    math::ex2(exponent) * math::fma(left, LN_2, 1.0)
}

/// Also of subnormal numbers, which the instruction takes for 0.
#[inline(always)]
fn log2(x: f32) -> f32 {
    const SCALE: f32 = 16_777_216.0;
    if absolute(x) < f32::MIN_POSITIVE { math::lg2(x * SCALE) - 24.0 } else { math::lg2(x) }
}

/// Also of subnormal numbers, which the instruction takes for 0.
#[inline(always)]
fn sqrt(x: f32) -> f32 {
    const SCALE: f32 = 16_777_216.0;
    if absolute(x) < f32::MIN_POSITIVE { math::sqrt(x * SCALE) * (1.0 / 4096.0) } else { math::sqrt(x) }
}

/// Near 0 by its series, where the difference of 1 would cancel.
#[inline(always)]
fn tanh(x: f32) -> f32 {
    let (size, square) = (absolute(x), x * x);
    let series = -0.333_333_34 + square * (0.133_333_34 + square * (-0.053_968_254 + square * 0.021_869_488));
    let far = 1.0 - 2.0 * math::rcp(1.0 + exp(2.0 * size));
    let far = f32::from_bits(far.to_bits() | x.to_bits() & 0x8000_0000);
    if size < 0.25 { math::fma(x * square, series, x) } else { far }
}

#[inline(always)]
fn pow(a: f32, b: f32) -> f32 {
    let base = absolute(a);
    // Also of an infinite exponent.
    let size = if base == 1.0 { 1.0 } else { math::ex2(b * log2(base)) };
    // From 2^24 on all numbers are even.
    let whole = absolute(b) >= 16_777_216.0 || (b as i32) as f32 == b;
    let odd = whole && absolute(b) < 16_777_216.0 && (b as i32) & 1 == 1;
    if b == 0.0 || a == 1.0 {
        1.0
    } else if odd && a.to_bits() >> 31 == 1 {
        -size
    } else if a < 0.0 && !whole && base < f32::INFINITY {
        f32::NAN
    } else {
        size
    }
}
