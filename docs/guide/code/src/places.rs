// SPDX-License-Identifier: MIT OR Apache-2.0
//! Chapter "Hello, GPU": the first kernel, as a whole.

// ANCHOR: kernel
use cuda_std::prelude::*;
use cuda_std::println;

/// Each thread says where it is.
#[kernel]
pub fn places() {
    println!("block {}, thread {}", thread::block_idx_x(), thread::thread_idx_x());
}
// ANCHOR_END: kernel

// ANCHOR: launch
use warpsmith::{Device, LaunchConfig, Stream};

fn launch_places(stream: &Stream) -> warpsmith::Result<()> {
    let config = LaunchConfig::new(2, 4); // 2 blocks of 4 threads
    stream.launch::<places>(&config, ())?; // queued: this does not wait
    stream.synchronize() // this does
}
// ANCHOR_END: launch

#[test]
fn threads_say_where_they_are() -> warpsmith::Result<()> {
    launch_places(Device::simulator().default_stream())
}
