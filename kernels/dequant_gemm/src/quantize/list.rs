//! The kernels that are compiled.

use tilewright_device::kernel::Described;
use tilewright_device::tile::Element;
use tilewright_device::{bf16, f16, kernels};

use super::{fit_groups, pack_codes};

/// What a kernel makes of wide weights.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// Scales and zeros.
    Fit,
    /// Codes.
    Pack,
}

/// What the host chooses a kernel by.
#[derive(Clone, Copy, Debug)]
pub struct QuantizeKernel {
    /// The weights' element type.
    pub element: &'static str,
    /// What it makes.
    pub step: Step,
}

impl<T: Element> Described for fit_groups<T> {
    type Description = QuantizeKernel;
    const DESCRIPTION: QuantizeKernel = QuantizeKernel { element: T::NAME, step: Step::Fit };
}

impl<T: Element> Described for pack_codes<T> {
    type Description = QuantizeKernel;
    const DESCRIPTION: QuantizeKernel = QuantizeKernel { element: T::NAME, step: Step::Pack };
}

kernels! {
    /// The kernels of [`fit_groups`](fn@fit_groups) and of [`pack_codes`](fn@pack_codes).
    pub static QUANTIZE: QuantizeKernel;

    for T in [f16, bf16, f32] {
        sm_80: [fit_groups_sm_80_ T]: fit_groups<T>;
        sm_80: [pack_codes_sm_80_ T]: pack_codes<T>;
    }
}
