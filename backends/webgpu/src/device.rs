//! A device of WebGPU: the first adapter that is there, its pipelines, and what lies in its memory for a call.

use crate::prelude::{LOOKS, LOOKS_NOT};
use crate::{Doubles, Formats, Halves, Kernel, Launch};
use std::fmt::Write;
use thiserror::Error;
use wgpu::util::{BufferInitDescriptor, DeviceExt};

/// Iterations after which Mesa's llvmpipe ends every loop of a thread: `LP_MAX_TGSI_LOOP_ITERATIONS`.
const LLVMPIPE_ITERATIONS: u64 = 65_535;

/// Why there is no device, or why it does not do what it is asked to.
#[derive(Debug, Error)]
pub enum DeviceError {
    /// There is none.
    #[error(
        "there is no device for WebGPU on this machine ({0}): install a driver for Vulkan, or Mesa's software one with ./setup.sh webgpu"
    )]
    Missing(String),
    /// It refuses a kernel, or is lost.
    #[error("the device does not take `{kernel}`: {reason}")]
    Refused {
        /// The tensor program.
        kernel: String,
        /// In its words.
        reason: String,
    },
}

/// A device.
pub struct Device {
    device: wgpu::Device,
    queue: wgpu::Queue,
    info: wgpu::AdapterInfo,
    formats: Formats,
    /// After how many iterations a thread's loops end, whatever their conditions say.
    iterations: Option<u64>,
}

/// A kernel as a device runs it.
pub(crate) struct Pipelines {
    stages: Vec<wgpu::ComputePipeline>,
    layout: wgpu::BindGroupLayout,
}

fn instance() -> wgpu::Instance {
    wgpu::Instance::new(wgpu::InstanceDescriptor::new_without_display_handle_from_env())
}

/// Every device that is there, a line for each.
#[must_use]
pub fn devices() -> Vec<String> {
    let adapters = pollster::block_on(instance().enumerate_adapters(wgpu::Backends::all()));
    adapters
        .iter()
        .map(|adapter| {
            let info = adapter.get_info();
            let mut line = format!("{} ({:?}, {:?}", info.name, info.backend, info.device_type);
            if !info.driver_info.is_empty() {
                let _ = write!(line, ", {}", info.driver_info);
            }
            let has = |feature| adapter.features().contains(feature);
            let doubles = if has(wgpu::Features::SHADER_F64) { "f64" } else { "f64 held as f32" };
            let halves = if has(wgpu::Features::SHADER_F16) { ", f16" } else { "" };
            let _ = write!(line, ", {doubles}{halves})");
            line
        })
        .collect()
}

impl Device {
    /// The fastest device, which may be the processor. It has what `formats` asks for where it can.
    ///
    /// # Errors
    /// When there is none.
    pub fn open(formats: Formats) -> Result<Self, DeviceError> {
        let options = wgpu::RequestAdapterOptions {
            power_preference: wgpu::PowerPreference::HighPerformance,
            ..wgpu::RequestAdapterOptions::default()
        };
        let missing = |why: String| DeviceError::Missing(why);
        let adapter = pollster::block_on(instance().request_adapter(&options))
            .map_err(|error| missing(error.to_string()))?;
        let has = |feature| adapter.features().contains(feature);
        let mut formats = formats;
        if !has(wgpu::Features::SHADER_F64) {
            formats.doubles = Doubles::Narrowed;
        }
        if !has(wgpu::Features::SHADER_F16) {
            formats.halves = Halves::Words;
        }
        let mut required_features = wgpu::Features::empty();
        if formats.doubles == Doubles::Native {
            required_features |= wgpu::Features::SHADER_F64;
        }
        if formats.halves == Halves::Native {
            required_features |= wgpu::Features::SHADER_F16;
        }
        // What is printed keeps to the limits that every device has.
        let descriptor = wgpu::DeviceDescriptor {
            label: Some("relax"),
            required_features,
            required_limits: wgpu::Limits::default(),
            ..wgpu::DeviceDescriptor::default()
        };
        let opened = pollster::block_on(adapter.request_device(&descriptor));
        let (device, queue) = opened.map_err(|error| missing(error.to_string()))?;
        let info = adapter.get_info();
        let iterations = (info.driver == "llvmpipe").then_some(LLVMPIPE_ITERATIONS);
        Ok(Self { device, queue, info, formats, iterations })
    }

    /// How it holds floats: what kernels for it are printed with.
    #[must_use]
    pub fn formats(&self) -> Formats {
        self.formats
    }

    /// Whether a launch may stop: the kernel does, or the driver may end loops of its threads early.
    pub(crate) fn may_stop(&self, kernel: &Kernel, launch: &Launch) -> bool {
        kernel.can_stop || self.iterations.is_some_and(|limit| launch.iterations >= limit)
    }

    /// What it is called.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.info.name
    }

    /// Who compiles for it: the interface, the driver and its version.
    #[must_use]
    pub fn driver(&self) -> String {
        let wgpu::AdapterInfo { backend, driver, driver_info, .. } = &self.info;
        format!("{backend:?} {driver} {driver_info}")
    }

    /// Compiles a kernel.
    pub(crate) fn compile(&self, kernel: &Kernel) -> Result<Pipelines, DeviceError> {
        self.checked(kernel, || {
            let layout = self.layout(kernel);
            let text = match self.iterations {
                Some(_) => kernel.text.replacen(LOOKS_NOT, LOOKS, 1).into(),
                None => kernel.text.as_str().into(),
            };
            let module = self.device.create_shader_module(wgpu::ShaderModuleDescriptor {
                label: Some(&kernel.program.name),
                source: wgpu::ShaderSource::Wgsl(text),
            });
            let pipeline_layout =
                self.device.create_pipeline_layout(&wgpu::PipelineLayoutDescriptor {
                    label: None,
                    bind_group_layouts: &[Some(&layout)],
                    immediate_size: 0,
                });
            let stages = kernel.stages.iter().map(|stage| {
                self.device.create_compute_pipeline(&wgpu::ComputePipelineDescriptor {
                    label: Some(&kernel.program.name),
                    layout: Some(&pipeline_layout),
                    module: &module,
                    entry_point: Some(&stage.entry),
                    compilation_options: wgpu::PipelineCompilationOptions::default(),
                    cache: None,
                })
            });
            Pipelines { stages: stages.collect(), layout }
        })
    }

    fn layout(&self, kernel: &Kernel) -> wgpu::BindGroupLayout {
        let storage = |read_only| wgpu::BufferBindingType::Storage { read_only };
        let types = [wgpu::BufferBindingType::Uniform, storage(false)];
        let types = types.into_iter().chain(kernel.bindings.iter().map(|b| storage(!b.is_written)));
        let entries: Vec<wgpu::BindGroupLayoutEntry> = types
            .zip(0..)
            .map(|(ty, binding)| wgpu::BindGroupLayoutEntry {
                binding,
                visibility: wgpu::ShaderStages::COMPUTE,
                ty: wgpu::BindingType::Buffer {
                    ty,
                    has_dynamic_offset: false,
                    min_binding_size: None,
                },
                count: None,
            })
            .collect();
        self.device.create_bind_group_layout(&wgpu::BindGroupLayoutDescriptor {
            label: None,
            entries: &entries,
        })
    }

    /// What the device says of errors goes to whoever asked, not to the end of the process.
    pub(crate) fn checked<T>(
        &self,
        kernel: &Kernel,
        run: impl FnOnce() -> T,
    ) -> Result<T, DeviceError> {
        let memory = self.device.push_error_scope(wgpu::ErrorFilter::OutOfMemory);
        let internal = self.device.push_error_scope(wgpu::ErrorFilter::Internal);
        let validation = self.device.push_error_scope(wgpu::ErrorFilter::Validation);
        let value = run();
        let errors = [validation.pop(), internal.pop(), memory.pop()];
        for error in errors {
            if let Some(error) = pollster::block_on(error) {
                let (kernel, reason) = (kernel.program.name.to_string(), error.to_string());
                return Err(DeviceError::Refused { kernel, reason });
            }
        }
        Ok(value)
    }

    /// A buffer of its own for whatever kernels do; it holds zeros.
    pub(crate) fn storage(&self, size: u64) -> wgpu::Buffer {
        let usage = wgpu::BufferUsages::STORAGE
            | wgpu::BufferUsages::COPY_SRC
            | wgpu::BufferUsages::COPY_DST;
        self.buffer(size, usage)
    }

    /// A buffer that the processor reads.
    pub(crate) fn readable(&self, size: u64) -> wgpu::Buffer {
        self.buffer(size, wgpu::BufferUsages::COPY_DST | wgpu::BufferUsages::MAP_READ)
    }

    fn buffer(&self, size: u64, usage: wgpu::BufferUsages) -> wgpu::Buffer {
        self.device.create_buffer(&wgpu::BufferDescriptor {
            label: None,
            size,
            usage,
            mapped_at_creation: false,
        })
    }

    /// The words that a launch is given.
    pub(crate) fn uniform(&self, words: &[i32]) -> wgpu::Buffer {
        // The last word of the structure is 0.
        let mut contents: Vec<u8> =
            words.iter().chain(&[0]).flat_map(|word| word.to_ne_bytes()).collect();
        contents.resize(contents.len().next_multiple_of(16), 0);
        let usage = wgpu::BufferUsages::UNIFORM;
        let descriptor = BufferInitDescriptor { label: None, contents: &contents, usage };
        self.device.create_buffer_init(&descriptor)
    }

    /// Writes to a buffer before what is submitted from now on.
    pub(crate) fn write(&self, buffer: &wgpu::Buffer, bytes: &[u8]) {
        self.queue.write_buffer(buffer, 0, bytes);
    }

    pub(crate) fn encoder(&self) -> wgpu::CommandEncoder {
        self.device.create_command_encoder(&wgpu::CommandEncoderDescriptor::default())
    }

    pub(crate) fn submit(&self, encoder: wgpu::CommandEncoder) {
        self.queue.submit([encoder.finish()]);
    }

    /// Buffers as a kernel sees them: what it is given, its status, and of each binding a buffer and its bytes.
    pub(crate) fn group(
        &self,
        pipelines: &Pipelines,
        given: &wgpu::Buffer,
        status: &wgpu::Buffer,
        bound: &[(wgpu::Buffer, u64)],
    ) -> wgpu::BindGroup {
        let whole = [given.as_entire_binding(), part(status, 4)];
        let parts = bound.iter().map(|(buffer, bytes)| part(buffer, *bytes));
        let entries: Vec<wgpu::BindGroupEntry<'_>> = whole
            .into_iter()
            .chain(parts)
            .zip(0..)
            .map(|(resource, binding)| wgpu::BindGroupEntry { binding, resource })
            .collect();
        self.device.create_bind_group(&wgpu::BindGroupDescriptor {
            label: None,
            layout: &pipelines.layout,
            entries: &entries,
        })
    }

    /// The stages of a launch, one after the other.
    pub(crate) fn encode(
        &self,
        encoder: &mut wgpu::CommandEncoder,
        pipelines: &Pipelines,
        launch: &Launch,
        group: &wgpu::BindGroup,
    ) {
        let mut pass = encoder.begin_compute_pass(&wgpu::ComputePassDescriptor::default());
        for (pipeline, groups) in pipelines.stages.iter().zip(&launch.groups) {
            let Some([x, y, z]) = *groups else { continue };
            pass.set_pipeline(pipeline);
            pass.set_bind_group(0, group, &[]);
            pass.dispatch_workgroups(x, y, z);
        }
    }

    /// Waits for what was submitted, and gives what lies in a buffer then.
    pub(crate) fn read(&self, copy: &wgpu::Buffer) -> Result<Vec<u8>, String> {
        let (sender, receiver) = std::sync::mpsc::channel();
        copy.map_async(wgpu::MapMode::Read, .., move |result| {
            // Nobody waits any more where the receiver is gone.
            let _ = sender.send(result);
        });
        self.device.poll(wgpu::PollType::wait_indefinitely()).map_err(|error| error.to_string())?;
        let mapped = receiver.recv().map_err(|error| error.to_string())?;
        mapped.map_err(|error| error.to_string())?;
        let view = copy.get_mapped_range(..).map_err(|error| error.to_string())?;
        let bytes: &[u8] = &view;
        Ok(bytes.to_vec())
    }
}

/// The first bytes of a buffer.
fn part(buffer: &wgpu::Buffer, bytes: u64) -> wgpu::BindingResource<'_> {
    let size = wgpu::BufferSize::new(bytes);
    wgpu::BindingResource::Buffer(wgpu::BufferBinding { buffer, offset: 0, size })
}
