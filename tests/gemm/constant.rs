//! Weights that kernels read before the preceding grid has ended.

use tilewright::ops::Gemm;
use tilewright::{Device, Stream, Tensor, f16};
use tilewright_support::random::normal;
use tilewright_support::suite::Outcome;

/// Kernels for few rows.
const KERNELS: [&str; 3] = [
    "gemm_sm_90_f16_f16_swap_nt_none_64x16x128s10k2",
    "gemm_sm_90_f16_f16_swap_nt_none_64x32x128s8k2",
    "gemm_sm_90_f16_f16_swap_nt_none_64x64x64s11k2",
];

/// Chains of products for few rows give the same bits: of fewer steps than stages and of more, of several tiles a CTA.
pub fn chains(device: &Device) -> Outcome {
    let stream = Stream::new(device)?;
    for (i, (m, [n, k])) in
        [(1, [96, 64]), (16, [72, 4104]), (3, [8712, 264]), (40, [200, 1032])].into_iter().enumerate()
    {
        let kernel = KERNELS[i % KERNELS.len()];
        let tensor = |seed, shape: [usize; 2]| {
            let values: Vec<f16> = normal::<f32>(seed, shape[0] * shape[1])
                .into_iter()
                .map(|x| f16::from_f32(x / (shape[1] as f32).sqrt()))
                .collect();
            Tensor::from_slice(device, &values, &shape)
        };
        let (x, up, down) = (tensor(1, [m, k])?, tensor(2, [n, k])?, tensor(3, [k, n])?);
        let (up, down) = (up.view().transpose(0, 1)?, down.view().transpose(0, 1)?);
        let run = |constant: bool| {
            let mut y = Tensor::filled(device, f16::NAN, &[m, n])?;
            let mut z = x.view().to_vec()?;
            let mut x = Tensor::from_slice(device, &z, &[m, k])?;
            for _ in 0..3 {
                let gemm = Gemm::<f16>::new().kernel(kernel);
                // SAFETY: nothing writes the weights.
                let gemm = if constant { unsafe { gemm.constant_b() } } else { gemm };
                gemm.run(&stream, &x.view(), &up, &mut y.view_mut())?;
                gemm.run(&stream, &y.view(), &down, &mut x.view_mut())?;
            }
            z.copy_from_slice(&x.to_vec_on(&stream)?);
            Ok::<_, tilewright::Error>(z)
        };
        assert_eq!(run(true)?, run(false)?, "{kernel}: {m} rows, {n} x {k}");
    }
    Ok(())
}
