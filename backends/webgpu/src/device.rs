//! A device of WebGPU: the first adapter that is there, its pipelines, and what lies in its memory for a call.

use crate::{Doubles, Kernel, Launch};
use std::fmt::Write;
use thiserror::Error;
use wgpu::util::{BufferInitDescriptor, DeviceExt};

/// Why there is no device, or why it does not do what it is asked to.
#[derive(Debug, Error)]
pub enum DeviceError {
    /// There is none.
    #[error(
        "there is no device for WebGPU on this machine ({0}): install a driver for Vulkan, or Mesa's software one with ./webgpu.sh"
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
    doubles: Doubles,
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
            let has = adapter.features().contains(wgpu::Features::SHADER_F64);
            line.push_str(if has { ", f64)" } else { ", f64 held as f32)" });
            line
        })
        .collect()
}

impl Device {
    /// The fastest device, which may be the processor. f64 is what it is where the device has it and `doubles` asks for it.
    ///
    /// # Errors
    /// When there is none.
    pub fn open(doubles: Doubles) -> Result<Self, DeviceError> {
        let options = wgpu::RequestAdapterOptions {
            power_preference: wgpu::PowerPreference::HighPerformance,
            ..wgpu::RequestAdapterOptions::default()
        };
        let missing = |why: String| DeviceError::Missing(why);
        let adapter = pollster::block_on(instance().request_adapter(&options))
            .map_err(|error| missing(error.to_string()))?;
        let has = adapter.features().contains(wgpu::Features::SHADER_F64);
        let doubles = if has { doubles } else { Doubles::Narrowed };
        let required_features = match doubles {
            Doubles::Native => wgpu::Features::SHADER_F64,
            Doubles::Narrowed => wgpu::Features::empty(),
        };
        // What is printed keeps to the limits that every device has.
        let descriptor = wgpu::DeviceDescriptor {
            label: Some("relax"),
            required_features,
            required_limits: wgpu::Limits::default(),
            ..wgpu::DeviceDescriptor::default()
        };
        let opened = pollster::block_on(adapter.request_device(&descriptor));
        let (device, queue) = opened.map_err(|error| missing(error.to_string()))?;
        Ok(Self { device, queue, info: adapter.get_info(), doubles })
    }

    /// How it holds f64: what kernels for it are printed with.
    #[must_use]
    pub fn doubles(&self) -> Doubles {
        self.doubles
    }

    /// What it is called.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.info.name
    }

    /// Compiles a kernel.
    pub(crate) fn compile(&self, kernel: &Kernel) -> Result<Pipelines, DeviceError> {
        self.checked(kernel, || {
            let layout = self.layout(kernel);
            let module = self.device.create_shader_module(wgpu::ShaderModuleDescriptor {
                label: Some(&kernel.program.name),
                source: wgpu::ShaderSource::Wgsl(kernel.text.as_str().into()),
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
    fn checked<T>(&self, kernel: &Kernel, run: impl FnOnce() -> T) -> Result<T, DeviceError> {
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

    /// Launches a kernel on contents of its bindings, and gives those back that it writes to; none where it stopped.
    pub(crate) fn run(
        &self,
        kernel: &Kernel,
        pipelines: &Pipelines,
        launch: &Launch,
        contents: &[Vec<u8>],
    ) -> Result<Option<Vec<Option<Vec<u8>>>>, DeviceError> {
        self.checked(kernel, || self.launched(kernel, pipelines, launch, contents))?.map_err(
            |reason| DeviceError::Refused { kernel: kernel.program.name.to_string(), reason },
        )
    }

    fn launched(
        &self,
        kernel: &Kernel,
        pipelines: &Pipelines,
        launch: &Launch,
        contents: &[Vec<u8>],
    ) -> Result<Option<Vec<Option<Vec<u8>>>>, String> {
        let given: Vec<u8> =
            launch.words.iter().chain(&[0]).flat_map(|word| word.to_ne_bytes()).collect();
        let storage = wgpu::BufferUsages::STORAGE | wgpu::BufferUsages::COPY_SRC;
        let given = self.buffer(&padded(given, 16), wgpu::BufferUsages::UNIFORM);
        let status = self.buffer(&[0; 4], storage);
        let buffers: Vec<wgpu::Buffer> =
            contents.iter().map(|bytes| self.buffer(bytes, storage)).collect();
        let all = [&given, &status].into_iter().chain(&buffers);
        let entries: Vec<wgpu::BindGroupEntry<'_>> = all
            .zip(0..)
            .map(|(buffer, binding)| wgpu::BindGroupEntry {
                binding,
                resource: buffer.as_entire_binding(),
            })
            .collect();
        let group = self.device.create_bind_group(&wgpu::BindGroupDescriptor {
            label: None,
            layout: &pipelines.layout,
            entries: &entries,
        });
        let mut encoder =
            self.device.create_command_encoder(&wgpu::CommandEncoderDescriptor::default());
        for (pipeline, groups) in pipelines.stages.iter().zip(&launch.groups) {
            let Some([x, y, z]) = *groups else { continue };
            let mut pass = encoder.begin_compute_pass(&wgpu::ComputePassDescriptor::default());
            pass.set_pipeline(pipeline);
            pass.set_bind_group(0, &group, &[]);
            pass.dispatch_workgroups(x, y, z);
        }
        let written = kernel.bindings.iter().zip(&buffers);
        let wanted: Vec<&wgpu::Buffer> = std::iter::once(&status)
            .chain(written.filter(|(binding, _)| binding.is_written).map(|(_, buffer)| buffer))
            .collect();
        let mut results = self.fetched(encoder, &wanted)?.into_iter();
        if results.next().is_none_or(|status| status != [0; 4]) {
            return Ok(None);
        }
        let each = kernel.bindings.iter();
        Ok(Some(
            each.map(|binding| if binding.is_written { results.next() } else { None }).collect(),
        ))
    }

    fn buffer(&self, contents: &[u8], usage: wgpu::BufferUsages) -> wgpu::Buffer {
        self.device.create_buffer_init(&BufferInitDescriptor { label: None, contents, usage })
    }

    /// Submits, and waits for copies of buffers.
    fn fetched(
        &self,
        mut encoder: wgpu::CommandEncoder,
        wanted: &[&wgpu::Buffer],
    ) -> Result<Vec<Vec<u8>>, String> {
        let total = wanted.iter().map(|buffer| buffer.size()).sum();
        let copy = self.device.create_buffer(&wgpu::BufferDescriptor {
            label: None,
            size: total,
            usage: wgpu::BufferUsages::COPY_DST | wgpu::BufferUsages::MAP_READ,
            mapped_at_creation: false,
        });
        let mut at = 0;
        for buffer in wanted {
            encoder.copy_buffer_to_buffer(buffer, 0, &copy, at, buffer.size());
            at += buffer.size();
        }
        self.queue.submit([encoder.finish()]);
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
        let mut at = 0;
        let mut results = Vec::new();
        for buffer in wanted {
            let end = at + usize::try_from(buffer.size()).unwrap_or(0);
            results.push(bytes[at..end].to_vec());
            at = end;
        }
        Ok(results)
    }
}

/// With zeros up to a multiple of a size.
fn padded(mut bytes: Vec<u8>, size: usize) -> Vec<u8> {
    bytes.resize(bytes.len().next_multiple_of(size), 0);
    bytes
}
