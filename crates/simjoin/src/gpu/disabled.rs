//! No GPU: the same functions as in `enabled.rs`, which say how to get one.

use simjoin_core::{Error, Result};
use simjoin_engine::{Device, DeviceIntersection};

fn unavailable<T>() -> Result<T> {
    let message = "no GPU can be used: simjoin was built without its feature `gpu`";
    Err(Error::Unavailable(message.into()))
}

pub(crate) fn devices() -> Result<&'static dyn Device> {
    unavailable()
}

pub(crate) fn first_device() -> Result<()> {
    unavailable()
}

pub(crate) fn awake() -> bool {
    false
}

pub(crate) fn names() -> Vec<String> {
    Vec::new()
}

pub(crate) fn intersect(
    _: &[u32],
    _: &[u32],
    _: Option<&str>,
    _: bool,
) -> Result<DeviceIntersection> {
    unavailable()
}
