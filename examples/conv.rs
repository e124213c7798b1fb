//! Convolves images, checks the results and, on a GPU, shows the speed.

use std::cell::RefCell;
use std::process::ExitCode;

use clap::{Parser, ValueEnum};
use tilewright::ops::{Conv, ConvGradient, FloatElement};
use tilewright::{Device, Stream, Tensor, bf16, f16};
use tilewright_support::example::{exit, show};
use tilewright_support::random::normal;
use tilewright_support::timing::{Options, Variant, compare, sets};
use tilewright_support::{Real, Result};

/// Convolves random images with random filters, computes both gradients, and checks the results. On a GPU it measures the speed too;
/// without one the emulator convolves smaller ones.
#[derive(Parser)]
#[command(name = "conv", override_usage = "conv [OPTIONS] [IMAGES SIZE CHANNELS OUTPUTS FILTER]")]
struct Arguments {
    /// Images, their height and width, their channels, filters, and the filters' height and width [default: several]
    #[arg(num_args = 5, value_names = ["IMAGES", "SIZE", "CHANNELS", "OUTPUTS", "FILTER"], value_parser = clap::value_parser!(u32).range(1..))]
    shape: Vec<u32>,
    /// Pixels from one output to the next
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..))]
    stride: u32,
    /// Equal parts of channels and filters that go together
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..))]
    groups: u32,
    /// Element type of all tensors
    #[arg(long = "type", value_enum, default_value = "f16")]
    dtype: Type,
    /// Forces a kernel of outputs by its name
    #[arg(long, value_name = "NAME")]
    kernel: Option<String>,
    /// Shows how all kernels rate for the shapes, and computes nothing
    #[arg(long)]
    list: bool,
    /// Runs on the emulator, and shows what it counts
    #[arg(long)]
    profile: bool,
}

#[derive(Clone, Copy, ValueEnum)]
enum Type {
    F16,
    Bf16,
}

/// Images, size, channels, filters and their size, stride, groups.
const SHAPES: [[usize; 7]; 6] = [
    [128, 56, 64, 64, 3, 1, 1],
    [32, 28, 256, 256, 3, 1, 1],
    [32, 56, 128, 128, 3, 2, 1],
    [32, 7, 512, 512, 3, 1, 1],
    [32, 224, 3, 64, 7, 2, 1],
    [32, 56, 128, 128, 3, 1, 128],
];

/// What the emulator computes in a moment.
const EMULATED: [[usize; 7]; 4] =
    [[2, 14, 64, 64, 3, 1, 1], [1, 14, 64, 128, 3, 2, 1], [1, 28, 3, 64, 7, 2, 1], [1, 14, 64, 64, 3, 1, 64]];

/// Sums that are compared with those computed in f64.
const CHECKED: usize = 500;

fn main() -> ExitCode {
    exit(run(&Arguments::parse()))
}

fn run(arguments: &Arguments) -> Result<()> {
    let device = if arguments.profile { Device::emulator() } else { Device::default()? };
    show(&device);
    let shapes = match arguments.shape[..] {
        [images, size, channels, outputs, filter] => {
            let all = [images, size, channels, outputs, filter, arguments.stride, arguments.groups];
            vec![all.map(|size| size as usize)]
        }
        _ if device.is_emulator() => EMULATED.to_vec(),
        _ => SHAPES.to_vec(),
    };
    for [images, size, channels, outputs, filter, stride, groups] in shapes {
        let task =
            Task { device: &device, arguments, images, size, channels, outputs, filter, stride, groups };
        match arguments.dtype {
            Type::F16 => task.run::<f16>()?,
            Type::Bf16 => task.run::<bf16>()?,
        }
    }
    Ok(())
}

/// One convolution of square images, padded by half of the filter.
struct Task<'a> {
    device: &'a Device,
    arguments: &'a Arguments,
    images: usize,
    size: usize,
    channels: usize,
    outputs: usize,
    filter: usize,
    stride: usize,
    groups: usize,
}

/// Images, filters and outputs on the device, with gradients of the first two.
struct Tensors<T> {
    x: Tensor<T>,
    w: Tensor<T>,
    y: RefCell<Tensor<T>>,
    dx: RefCell<Tensor<T>>,
    dw: RefCell<Tensor<T>>,
}

impl Task<'_> {
    fn padding(&self) -> usize {
        self.filter / 2
    }

    /// Rows and columns of outputs.
    fn out(&self) -> Result<usize> {
        let padded = self.size + 2 * self.padding();
        let fits = padded.checked_sub(self.filter).ok_or("the filter is larger than the images")?;
        Ok(fits / self.stride + 1)
    }

    fn conv<T: FloatElement>(&self) -> Conv<'_, T> {
        let conv = Conv::new().stride([self.stride; 2]).padding([self.padding(); 2]).groups(self.groups);
        match &self.arguments.kernel {
            Some(name) => conv.kernel(name),
            None => conv,
        }
    }

    fn gradient(&self) -> ConvGradient<'static> {
        ConvGradient::new().stride([self.stride; 2]).padding([self.padding(); 2]).groups(self.groups)
    }

    fn run<T: FloatElement + Real>(&self) -> Result<()> {
        let Task { images, size, channels, outputs, filter, stride, groups, device, .. } = *self;
        if !channels.is_multiple_of(groups) {
            return Err(format!("{groups} groups do not divide {channels} channels").into());
        }
        let out = self.out()?;
        let x_shape = [images, size, size, channels];
        let w_shape = [outputs, filter, filter, channels / groups];
        let y_shape = [images, out, out, outputs];
        println!(
            "\n{} n{images} {size}x{size} {channels}->{outputs} {filter}x{filter} s{stride} g{groups}",
            T::DTYPE
        );

        if self.arguments.list {
            let (x, w) = (Tensor::<T>::uninit(device, &x_shape)?, Tensor::uninit(device, &w_shape)?);
            let mut y = Tensor::uninit(device, &y_shape)?;
            for candidate in self.conv().candidates(&x.view(), &w.view(), &y.view_mut())? {
                println!("  {candidate}");
            }
            return Ok(());
        }

        let len = |shape: [usize; 4]| shape.iter().product::<usize>();
        let (x, w) = (normal::<T>(1, len(x_shape)), normal::<T>(2, len(w_shape)));
        let bytes = (len(x_shape) + len(w_shape) + len(y_shape)) * size_of::<T>();
        // As many copies as it takes to find none of them in the cache when it is used again, where that matters.
        let copies = if device.is_emulator() { 1 } else { sets(device, bytes) };
        let make = |_| -> Result<_> {
            Ok(Tensors {
                x: Tensor::from_slice(device, &x, &x_shape)?,
                w: Tensor::from_slice(device, &w, &w_shape)?,
                y: RefCell::new(Tensor::filled(device, T::POISON, &y_shape)?),
                dx: RefCell::new(Tensor::filled(device, T::POISON, &x_shape)?),
                dw: RefCell::new(Tensor::filled(device, T::POISON, &w_shape)?),
            })
        };
        let tensors = (0..copies).map(make).collect::<Result<Vec<_>>>()?;
        let first = &tensors[0];

        let plan = self.conv().plan(&first.x.view(), &first.w.view(), &first.y.borrow_mut().view_mut())?;
        println!("  kernel: {plan}");
        device.reset_profile();
        let stream = device.default_stream();
        self.outputs(&stream, first)?;
        self.check(&x, &w, &first.y.borrow().to_vec()?, out)?;
        // The outputs serve as their own gradient: then Σ dx x and Σ dw w are both Σ y y.
        self.images(&stream, first)?;
        self.filters(&stream, first, &mut self.gradient())?;
        let dot = |a: &[T], b: &[T]| -> f64 {
            T::widen(a).iter().zip(T::widen(b)).map(|(a, b)| f64::from(*a) * f64::from(b)).sum()
        };
        let y = first.y.borrow().to_vec()?;
        let exact = dot(&y, &y);
        for (name, other) in
            [("dx", dot(&first.dx.borrow().to_vec()?, &x)), ("dw", dot(&first.dw.borrow().to_vec()?, &w))]
        {
            let error = (other / exact - 1.0).abs();
            println!("  {name}: its products add up to those of the outputs within {error:.1e}");
            if error.is_nan() || error > 4.0 * T::ROUNDING {
                return Err(format!("{name} is wrong: {other} in place of {exact}").into());
            }
        }
        if self.arguments.profile {
            device.profile().iter().flatten().for_each(|kernel| println!("\n{kernel}"));
        }
        if device.is_emulator() { Ok(()) } else { self.measure(&tensors, out) }
    }

    fn outputs<T: FloatElement>(&self, stream: &Stream, tensors: &Tensors<T>) -> tilewright::Result<()> {
        let Tensors { x, w, y, .. } = tensors;
        self.conv().run(stream, &x.view(), &w.view(), &mut y.borrow_mut().view_mut())
    }

    fn images<T: FloatElement>(&self, stream: &Stream, tensors: &Tensors<T>) -> tilewright::Result<()> {
        let Tensors { w, y, dx, .. } = tensors;
        self.gradient().images(stream, &y.borrow().view(), &w.view(), &mut dx.borrow_mut().view_mut())
    }

    fn filters<T: FloatElement>(
        &self,
        stream: &Stream,
        tensors: &Tensors<T>,
        gradient: &mut ConvGradient<'_>,
    ) -> tilewright::Result<()> {
        let Tensors { x, y, dw, .. } = tensors;
        gradient.filters(stream, &x.view(), &y.borrow().view(), &mut dw.borrow_mut().view_mut())
    }

    /// Compares some outputs with sums in f64.
    fn check<T: Real>(&self, x: &[T], w: &[T], y: &[T], out: usize) -> Result<()> {
        let Task { size, channels, outputs, filter, stride, groups, .. } = *self;
        let (x, w, y) = (T::widen(x), T::widen(w), T::widen(y));
        let each = channels / groups;
        let (mut distance, mut length, count) = (0.0, 0.0, y.len().min(CHECKED));
        for i in 0..count {
            // Places all over the outputs.
            let at = i * (y.len() / count) + i % (y.len() / count);
            let (output, column, row) = (at % outputs, at / outputs % out, at / outputs / out % out);
            let (image, group) = (at / outputs / out / out, output / (outputs / groups));
            let mut sum = 0.0;
            for tap in 0..filter * filter {
                let place = |out: usize, tap: usize| (out * stride + tap).checked_sub(self.padding());
                let (Some(r), Some(c)) = (place(row, tap / filter), place(column, tap % filter)) else {
                    continue;
                };
                if r < size && c < size {
                    let pixel = &x[((image * size + r) * size + c) * channels + group * each..][..each];
                    let weights = &w[(output * filter * filter + tap) * each..][..each];
                    sum += pixel.iter().zip(weights).map(|(x, w)| f64::from(*x) * f64::from(*w)).sum::<f64>();
                }
            }
            distance += (f64::from(y[at]) - sum).powi(2);
            length += sum * sum;
        }
        let error = (distance / length).sqrt();
        // Every element is rounded once, and the sums differ by less than that.
        let allowed = 2.0 * T::ROUNDING;
        println!("  error: {error:.1e} of {count} outputs, at most {allowed:.1e} is right");
        let unwritten = y.iter().filter(|y| y.is_nan()).count();
        match unwritten {
            0 if error <= allowed => Ok(()),
            0 => Err(format!("the result is wrong: its relative error is {error:.1e}").into()),
            _ => Err(format!("the result is wrong: {unwritten} elements are not numbers").into()),
        }
    }

    fn measure<T: FloatElement>(&self, tensors: &[Tensors<T>], out: usize) -> Result<()> {
        let Task { images, channels, outputs, filter, groups, device, .. } = *self;
        let first = &tensors[0];
        let len = self.gradient().workspace_len(
            &first.x.view(),
            &first.y.borrow().view(),
            &first.dw.borrow_mut().view_mut(),
        )?;
        // A graph is captured without allocations.
        let workspace = RefCell::new(Tensor::<f32>::zeros(device, &[len.max(1)])?);
        let variants = [
            Variant::new("y", |stream: &Stream, set: usize| self.outputs(stream, &tensors[set])),
            Variant::new("dx", |stream: &Stream, set: usize| self.images(stream, &tensors[set])),
            Variant::new("dw", |stream: &Stream, set: usize| {
                let mut workspace = workspace.borrow_mut();
                let mut workspace = workspace.view_mut();
                self.filters(stream, &tensors[set], &mut self.gradient().workspace(&mut workspace))
            }),
        ];
        let options = Options { sets: tensors.len(), ..Options::default() };
        println!("  | of | ms | TFLOP/s |\n  | --- | ---: | ---: |");
        for timing in &compare(device, &variants, &options)? {
            let ms = timing.median();
            let flops =
                2.0 * (images * out * out * outputs) as f64 * (filter * filter * channels / groups) as f64;
            println!("  | {} | {ms:.4} | {:.1} |", timing.name, flops / ms / 1e9);
        }
        Ok(())
    }
}
