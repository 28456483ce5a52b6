// SPDX-License-Identifier: MIT OR Apache-2.0
//! Chapter "Hello, GPU": the program that launches the first kernel.

// The crate of the reader's kernels.
use warpsmith_guide_kernels::places as hello_kernels;

// ANCHOR: uses
use hello_kernels::places;
use warpsmith::{Device, LaunchConfig, Stream};
// ANCHOR_END: uses

// ANCHOR: launch
fn launch_places(stream: &Stream) -> warpsmith::Result<()> {
    let config = LaunchConfig::new(2, 4); // 2 blocks of 4 threads
    stream.launch::<places>(&config, ())?; // queued: this does not wait
    stream.synchronize() // this does
}
// ANCHOR_END: launch

#[test]
fn threads_say_where_they_are() -> warpsmith::Result<()> {
    let device = Device::simulator();
    let stream = device.default_stream();
    // ANCHOR: end
    launch_places(stream)
}
// ANCHOR_END: end
