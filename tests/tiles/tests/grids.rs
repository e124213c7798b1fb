//! On the emulator a grid may not use, before it has waited, what preceding grids that may still run have accessed. On a GPU
//! what comes out is chance.

use tilewright::{Device, Event, Graph, Launch, Result, Stream, Tensor};
use tilewright_tile_tests::KERNELS;
use tilewright_tile_tests_device::copies::M;
use tilewright_tile_tests_device::rows::StepsOfStripes;

/// Two tensors, and a kernel that makes one of the other and waits for no grid.
struct Grids {
    device: Device,
    x: Tensor<f32>,
    y: Tensor<f32>,
}

impl Grids {
    /// On a device of this seed: what one test waits for is not another's.
    fn new(seed: u64) -> Result<Self> {
        let device = Device::emulator_with_seed(seed);
        let x = Tensor::filled(&device, 1.0f32, &[M, 4])?;
        let y = Tensor::zeros(&device, &[M, 1])?;
        Ok(Self { device, x, y })
    }

    fn run(&mut self, stream: &Stream, overlaps: bool) -> Result<()> {
        let (kernel, launch) = (self.device.kernel::<StepsOfStripes>(&KERNELS)?, Launch::grid([1; 3]));
        // SAFETY: the tensors live until the stream's work is done, which the emulator does at once; what is not waited for is looked for.
        unsafe { kernel.launch_with(stream, &launch.pdl(overlaps), (&self.x.view(), &mut self.y.view_mut())) }
    }
}

#[track_caller]
fn refused<T>(result: Result<T>) {
    let report = result.err().expect("it does not wait").to_string();
    for part in ["race", "a preceding grid may still", "no griddepcontrol.wait"] {
        assert!(report.contains(part), "{part}: {report}");
    }
}

#[test]
fn a_grid_does_not_wait() -> Result<()> {
    let mut grids = Grids::new(1)?;
    let (stream, other) = (Stream::new(&grids.device)?, Stream::new(&grids.device)?);
    grids.run(&stream, true)?;
    refused(grids.run(&stream, true));
    // A launch that begins behind the end of the first, and one of another stream.
    grids.run(&stream, false)?;
    grids.run(&other, true)?;
    refused(grids.run(&stream, true));
    Ok(())
}

#[test]
fn what_has_ended_precedes_no_more() -> Result<()> {
    let mut grids = Grids::new(2)?;
    let (stream, other) = (Stream::new(&grids.device)?, Stream::new(&grids.device)?);
    let event = Event::new(&grids.device)?;
    type End<'e> = (&'e str, &'e dyn Fn(&Grids) -> Result<()>);
    let ends: [End<'_>; 6] = [
        ("a stream that is waited for", &|_| stream.synchronize()),
        ("a device that is waited for", &|grids| grids.device.synchronize()),
        ("an event that is waited for", &|_| {
            stream.record(&event)?;
            event.synchronize()
        }),
        ("an event that the stream waits for", &|_| {
            other.record(&event)?;
            stream.wait(&event)
        }),
        ("a result that is read", &|grids| grids.y.to_vec_on(&stream).map(drop)),
        ("memory that is given back", &|grids| Tensor::<f32>::zeros(&grids.device, &[1]).map(drop)),
    ];
    for (what, end) in ends {
        grids.run(&stream, false)?;
        end(&grids)?;
        grids.run(&stream, true).unwrap_or_else(|error| panic!("{what}: {error}"));
        refused(grids.run(&stream, true));
    }
    Ok(())
}

#[test]
fn graphs() -> Result<()> {
    let mut grids = Grids::new(3)?;
    let (stream, other) = (Stream::new(&grids.device)?, Stream::new(&grids.device)?);
    let event = Event::new(&grids.device)?;
    let mut capture = |overlaps: &[bool], joins: bool| -> Result<Graph> {
        stream.capture(|stream| {
            overlaps.iter().try_for_each(|&overlaps| {
                grids.run(stream, overlaps)?;
                if joins {
                    stream.record(&event)?;
                    other.wait(&event)?;
                    other.record(&event)?;
                    stream.wait(&event)?;
                }
                Ok(())
            })
        })
    };
    let launch = |graph: Graph| {
        // SAFETY: the tensors live until the test ends.
        unsafe { graph.launch(&stream).and_then(|()| graph.launch(&stream)) }
    };
    // The first one of a graph begins when what precedes the graph has ended.
    launch(capture(&[true], false)?)?;
    refused(launch(capture(&[false, true], false)?));
    launch(capture(&[false, true], true)?)
}
