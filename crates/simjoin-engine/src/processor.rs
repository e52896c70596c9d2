//! Who works: CPU cores, or devices?

use std::ops::{Index, IndexMut};

/// What a technique runs on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Processor {
    /// CPU cores.
    #[default]
    Cpu,
    /// Devices such as GPUs, which work together.
    Device,
}

impl Processor {
    /// Both, the CPU first.
    pub const ALL: [Processor; 2] = [Processor::Cpu, Processor::Device];

    /// Returns the other one.
    pub fn other(self) -> Self {
        match self {
            Processor::Cpu => Processor::Device,
            Processor::Device => Processor::Cpu,
        }
    }
}

/// A value for the CPU and one for the devices.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct PerProcessor<T> {
    /// The CPU's.
    pub cpu: T,
    /// The devices'.
    pub device: T,
}

impl<T> PerProcessor<T> {
    /// Makes one for each processor.
    pub fn of(mut make: impl FnMut(Processor) -> T) -> Self {
        PerProcessor { cpu: make(Processor::Cpu), device: make(Processor::Device) }
    }

    /// Makes one for each processor, unless one cannot be made.
    pub fn try_of<E>(mut make: impl FnMut(Processor) -> Result<T, E>) -> Result<Self, E> {
        Ok(PerProcessor { cpu: make(Processor::Cpu)?, device: make(Processor::Device)? })
    }
}

impl<T> Index<Processor> for PerProcessor<T> {
    type Output = T;

    fn index(&self, processor: Processor) -> &T {
        match processor {
            Processor::Cpu => &self.cpu,
            Processor::Device => &self.device,
        }
    }
}

impl<T> IndexMut<Processor> for PerProcessor<T> {
    fn index_mut(&mut self, processor: Processor) -> &mut T {
        match processor {
            Processor::Cpu => &mut self.cpu,
            Processor::Device => &mut self.device,
        }
    }
}
