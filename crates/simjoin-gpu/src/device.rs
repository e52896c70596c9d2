//! Which devices are there, and how is work given to one?

use crate::nvrtc::Nvrtc;
use crate::pinned::PinnedPool;
use crate::send::THREADS;
use cudarc::driver::{
    CudaContext, CudaFunction, CudaModule, CudaStream, DriverError, LaunchConfig, PushKernelArg,
};
use cudarc::driver::{result, sys};
use cudarc::nvrtc::Ptx;
use simjoin_core::{Error, Result};
use std::collections::HashMap;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::{Duration, Instant};

/// What is known of a device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeviceInfo {
    /// Its number.
    pub ordinal: usize,
    /// Its name.
    pub name: String,
    /// Bytes of memory.
    pub memory: u64,
    /// Compute capability, such as (9, 0).
    pub capability: (i32, i32),
    /// How many multiprocessors it has.
    pub multiprocessors: u32,
    /// Bytes a second that its memory moves; 0 where the driver does not tell.
    pub bandwidth: u64,
    /// The driver's CUDA version, such as (13, 0).
    pub driver: (i32, i32),
}

/// How long what others left is known. Asking takes as long as planning a small join does.
const LATELY: Duration = Duration::from_millis(100);

/// Multiprocessors, and bytes a second of memory, of the device that costs were measured on, an H200.
const MEASURED_ON: (u32, u64) = (132, 4_800_000_000_000);

impl DeviceInfo {
    /// The name of its architecture, for the compiler.
    pub fn architecture(&self) -> String {
        format!("sm_{}{}", self.capability.0, self.capability.1)
    }

    /// How many times the multiprocessors of the device that costs were measured on.
    pub fn multiprocessor_ratio(&self) -> f64 {
        f64::from(self.multiprocessors) / f64::from(MEASURED_ON.0)
    }

    /// How many times its bandwidth.
    pub fn bandwidth_ratio(&self) -> f64 {
        match self.bandwidth {
            0 => self.multiprocessor_ratio(),
            bytes => bytes as f64 / MEASURED_ON.1 as f64,
        }
    }

    /// Whether its tensor cores multiply bits.
    pub fn multiplies_bits(&self) -> bool {
        (80..100).contains(&(10 * self.capability.0 + self.capability.1))
    }
}

/// A device, ready for work.
#[derive(Debug)]
pub struct Device {
    /// What is known of it.
    pub info: DeviceInfo,
    pub(crate) context: Arc<CudaContext>,
    pub(crate) pinned: PinnedPool,
    /// Streams, each lent to one at a time.
    streams: Mutex<Vec<Arc<CudaStream>>>,
    /// Threads that fill buffers for it, beside the one that sends; made when first needed.
    senders: OnceLock<Option<rayon::ThreadPool>>,
    modules: Mutex<HashMap<ModuleKey, Arc<CudaModule>>>,
    /// Bytes of its memory that nobody else had, and when that was asked.
    left_by_others: Mutex<Option<(Instant, u64)>>,
}

/// Where a source lies, and its definitions. Sources are static: each lies in one place.
type ModuleKey = (usize, Vec<(&'static str, u32)>);

static FOUND: OnceLock<std::result::Result<Vec<Arc<Device>>, String>> = OnceLock::new();

/// Whether devices have been found and opened already, so that using them costs no start.
pub fn opened() -> bool {
    FOUND.get().is_some_and(std::result::Result::is_ok)
}

/// All devices of this machine, found once; why there are none, otherwise.
pub fn devices() -> Result<&'static [Arc<Device>]> {
    let found = FOUND.get_or_init(|| find().map_err(|error| error.to_string()));
    found.as_deref().map_err(|why| Error::Unavailable(why.clone()))
}

fn find() -> Result<Vec<Arc<Device>>> {
    // SAFETY: this only tries to open the driver's library.
    if !unsafe { sys::is_culib_present() } {
        return Err(Error::Unavailable(
            "no NVIDIA driver was found (libcuda.so); install the driver of your GPU".into(),
        ));
    }
    let count = CudaContext::device_count().map_err(failed("looking for devices"))?;
    if count == 0 {
        return Err(Error::Unavailable("the NVIDIA driver knows no device".into()));
    }
    (0..count as usize).map(|ordinal| Device::open(ordinal).map(Arc::new)).collect()
}

impl Device {
    fn open(ordinal: usize) -> Result<Self> {
        let at = failed("opening the device");
        let context = CudaContext::new(ordinal).map_err(&at)?;
        let mut version = 0;
        // SAFETY: the pointer is to a number that lives through the call.
        unsafe { sys::cuDriverGetVersion(&raw mut version) }.result().map_err(&at)?;
        let multiprocessors = context
            .attribute(sys::CUdevice_attribute::CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT)
            .map_err(&at)?;
        let attribute = |which| context.attribute(which).unwrap_or(0).max(0) as u64;
        let kilohertz = attribute(sys::CUdevice_attribute::CU_DEVICE_ATTRIBUTE_MEMORY_CLOCK_RATE);
        let bits = attribute(sys::CUdevice_attribute::CU_DEVICE_ATTRIBUTE_GLOBAL_MEMORY_BUS_WIDTH);
        let info = DeviceInfo {
            ordinal,
            // Memory sends twice in a cycle.
            bandwidth: 2 * 1000 * kilohertz * bits / 8,
            name: context.name().map_err(&at)?,
            memory: context.total_mem().map_err(&at)? as u64,
            capability: context.compute_capability().map_err(&at)?,
            multiprocessors: multiprocessors as u32,
            driver: (version / 1000, version % 1000 / 10),
        };
        // SAFETY: nothing needs to be tracked. Buffers are used by the stream of the worker that owns them;
        // what a worker reads of others (sets, lists, signatures) its stream waits for before anything else
        // (`Channel::new`); arrays that several streams fill are waited for on the host; and a worker that
        // goes waits for what the device was given, so that nothing is freed while it is read.
        unsafe { context.disable_event_tracking() };
        keep_memory(&context).map_err(&at)?;
        Ok(Device {
            info,
            context,
            pinned: PinnedPool::default(),
            streams: Mutex::default(),
            senders: OnceLock::new(),
            modules: Mutex::default(),
            left_by_others: Mutex::default(),
        })
    }

    /// The threads that fill buffers; `None` where there can be none.
    pub(crate) fn senders(&self) -> Option<&rayon::ThreadPool> {
        let make = || {
            let named = |at| format!("sender {at}");
            let pool = rayon::ThreadPoolBuilder::new().num_threads(THREADS - 1).thread_name(named);
            pool.build().ok()
        };
        self.senders.get_or_init(make).as_ref()
    }

    /// A stream that nobody else has. Making one takes long, so they are kept.
    pub(crate) fn stream(&self) -> Result<Arc<CudaStream>> {
        let at = failed("making a stream");
        self.context.bind_to_thread().map_err(&at)?;
        let mut streams = self.streams.lock().unwrap_or_else(PoisonError::into_inner);
        // Arrays hold the stream that they were made by; when the last is gone, only this list has it.
        if let Some(free) = streams.iter().find(|stream| Arc::strong_count(stream) == 1) {
            return Ok(free.clone());
        }
        let stream = self.context.new_stream().map_err(&at)?;
        streams.push(stream.clone());
        Ok(stream)
    }

    /// Bytes of shared memory that a block may have.
    pub(crate) fn shared_bytes(&self) -> u32 {
        let which = sys::CUdevice_attribute::CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN;
        self.context.attribute(which).unwrap_or(0).max(0) as u32
    }

    /// Bytes of memory that are free now, as far as others have taken or given back none lately.
    pub fn free_memory(&self) -> Result<u64> {
        let at = failed("asking for free memory");
        let held = |attribute| pool_attribute(&self.context, attribute).map_err(&at);
        let mut known = self.left_by_others.lock().unwrap_or_else(PoisonError::into_inner);
        let lately = known.filter(|(asked, _)| asked.elapsed() < LATELY);
        let left = match lately {
            Some((_, bytes)) if self.context.has_async_alloc() => bytes,
            _ => {
                let (free, _) = self.context.mem_get_info().map_err(&at)?;
                let reserved =
                    held(sys::CUmemPool_attribute::CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT)?;
                let bytes = free as u64 + reserved;
                *known = Some((Instant::now(), bytes));
                bytes
            }
        };
        let used = held(sys::CUmemPool_attribute::CU_MEMPOOL_ATTR_USED_MEM_CURRENT)?;
        Ok(left.saturating_sub(used))
    }

    /// A function of a kernel source, compiled for this device with these definitions.
    pub(crate) fn function(
        &self,
        source: &'static str,
        defines: &[(&'static str, u32)],
        name: &str,
    ) -> Result<CudaFunction> {
        let mut modules = self.modules.lock().unwrap_or_else(PoisonError::into_inner);
        let key = (source.as_ptr().addr(), defines.to_vec());
        let module = match modules.get(&key) {
            Some(module) => module.clone(),
            None => {
                // Warpgroups multiply on the very architecture only.
                let very = if defines.contains(&("WGMMA", 1)) { "a" } else { "" };
                let architecture = self.info.architecture() + very;
                let code = Nvrtc::get()?.compile(source, &architecture, defines)?;
                let module = self
                    .context
                    .load_module(Ptx::from_binary(code))
                    .map_err(failed("loading a kernel"))?;
                modules.insert(key, module.clone());
                module
            }
        };
        module.load_function(name).map_err(failed("finding a kernel"))
    }

    /// Runs a kernel once, in a block of 32 threads: it is given numbers, how many there are, and room for as many
    /// results. For tests of what kernels share.
    #[doc(hidden)]
    pub fn run_once(&self, source: &'static str, name: &str, numbers: &[u64]) -> Result<Vec<u64>> {
        let at = failed("running a kernel");
        let (function, stream) = (self.function(source, &[], name)?, self.stream()?);
        let count = numbers.len() as u32;
        let numbers = stream.clone_htod(numbers).map_err(&at)?;
        let mut results = stream.alloc_zeros::<u64>(numbers.len()).map_err(&at)?;
        let one = LaunchConfig { grid_dim: (1, 1, 1), block_dim: (32, 1, 1), shared_mem_bytes: 0 };
        // SAFETY: the arguments are those of the kernel, by its contract.
        unsafe {
            stream
                .launch_builder(&function)
                .arg(&numbers)
                .arg(&count)
                .arg(&mut results)
                .launch(one)
                .map_err(&at)?;
        }
        let results = stream.clone_dtoh(&results).map_err(&at)?;
        stream.synchronize().map_err(&at)?;
        Ok(results)
    }
}

/// Memory that is freed is kept for the next buffer, rather than given back at every wait.
fn keep_memory(context: &CudaContext) -> std::result::Result<(), DriverError> {
    if !context.has_async_alloc() {
        return Ok(());
    }
    let mut all = u64::MAX;
    // SAFETY: the pool is the device's, and the pointer is to a number that lives through the call.
    unsafe {
        let pool = result::device::get_default_mem_pool(context.cu_device())?;
        let threshold = sys::CUmemPool_attribute::CU_MEMPOOL_ATTR_RELEASE_THRESHOLD;
        result::mem_pool::set_attribute(pool, threshold, (&raw mut all).cast())
    }
}

fn pool_attribute(
    context: &CudaContext,
    attribute: sys::CUmemPool_attribute,
) -> std::result::Result<u64, DriverError> {
    let mut value = 0u64;
    if context.has_async_alloc() {
        // SAFETY: as above; these attributes are 64-bit numbers.
        unsafe {
            let pool = result::device::get_default_mem_pool(context.cu_device())?;
            result::mem_pool::get_attribute(pool, attribute, (&raw mut value).cast())?;
        }
    }
    Ok(value)
}

/// What a failure of the driver means for a person.
pub(crate) fn failed(doing: &str) -> impl Fn(DriverError) -> Error + use<> {
    let doing = doing.to_string();
    move |error| {
        if error.0 == sys::CUresult::CUDA_ERROR_OUT_OF_MEMORY {
            return Error::Unavailable(format!(
                "the GPU has too little free memory ({doing}); give it less with --device-memory"
            ));
        }
        let text = error
            .error_string()
            .map_or_else(|_| format!("{error:?}"), |text| text.to_string_lossy().into_owned());
        Error::Unavailable(format!("the GPU failed ({doing}): {text}"))
    }
}
