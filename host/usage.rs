// SPDX-License-Identifier: MIT OR Apache-2.0
//! Which streams use which bytes of an allocation, and what a stream waits for before it uses some.

use std::ops::Range;

use crate::error::Result;
use crate::stream::Stream;

/// The most parts of an allocation that are told apart. With more, the whole is ordered as one again.
const MOST: usize = 64;

/// The uses of an allocation that later ones on other streams are ordered behind: of each part, the last write, and the
/// reads since. Parts that other uses do not touch need not be waited for.
///
/// At first, and as long as one stream is in use, there is one part, which allocates nothing.
#[derive(Debug)]
pub(crate) struct Usage {
    /// The part that begins at byte 0.
    first: Part,
    /// Where the others begin, in that order.
    others: Vec<(usize, Part)>,
}

#[derive(Clone, Debug, PartialEq)]
struct Part {
    /// The stream of the last write; at first, that of the allocation.
    writer: Stream,
    /// Other streams that have read since.
    readers: Vec<Stream>,
}

impl Part {
    fn of(stream: &Stream) -> Self {
        Self {
            writer: stream.clone(),
            readers: Vec::new(),
        }
    }

    /// Whether `stream` comes behind the last write.
    fn is_known(&self, stream: &Stream) -> bool {
        self.writer == *stream || self.readers.contains(stream)
    }
}

/// Those that are not `stream`, once each.
fn others<'a>(stream: &Stream, streams: impl Iterator<Item = &'a Stream>) -> Vec<Stream> {
    let mut others = Vec::new();
    for other in streams {
        if other != stream && !others.contains(other) {
            others.push(other.clone());
        }
    }
    others
}

/// Streams that nothing uses any more. The last owner of a stream ends it when it drops this: not under a lock.
#[must_use]
pub(crate) struct Released(Vec<Part>);

impl Usage {
    /// Of memory that `stream` has allocated.
    pub(crate) fn of(stream: &Stream) -> Self {
        Self {
            first: Part::of(stream),
            others: Vec::new(),
        }
    }

    /// Orders `stream` behind the writes of those bytes, and remembers the read.
    pub(crate) fn read(&mut self, stream: &Stream, bytes: Range<usize>) -> Result<Released> {
        // As a rule: one stream is in use, or the others have waited.
        if self.others.is_empty() && self.first.is_known(stream) {
            return Ok(Released(Vec::new()));
        }
        let writers = self.before_read(stream, &bytes);
        if writers.is_empty() {
            return Ok(Released(Vec::new()));
        }
        for writer in &writers {
            stream.wait_for(writer)?;
        }
        for number in self.cut(&bytes) {
            let part = self.part_mut(number);
            if !part.is_known(stream) {
                part.readers.push(stream.clone());
            }
        }
        self.merge();
        self.bounded(stream)
    }

    /// Orders `stream` behind the writes and reads of those bytes, and remembers the write.
    pub(crate) fn write(&mut self, stream: &Stream, bytes: Range<usize>) -> Result<Released> {
        if self.others.is_empty() && self.first.writer == *stream && self.first.readers.is_empty() || bytes.is_empty() {
            return Ok(Released(Vec::new()));
        }
        for other in self.before_write(stream, &bytes) {
            stream.wait_for(&other)?;
        }
        // The parts of the range become one, at the place of the first.
        let range = self.cut(&bytes);
        let merged = self.others.drain(range.start..range.end - 1).map(|other| other.1);
        let mut released: Vec<Part> = merged.collect();
        released.push(std::mem::replace(self.part_mut(range.start), Part::of(stream)));
        self.merge();
        released.extend(self.bounded(stream)?.0);
        Ok(Released(released))
    }

    /// The stream that the memory is given back on, when it has waited for the others.
    pub(crate) fn last_writer(&self) -> &Stream {
        &self.first.writer
    }

    /// The streams that use any of the bytes, without that one.
    pub(crate) fn users_but(&self, stream: &Stream) -> Vec<Stream> {
        self.before_write(stream, &(0..usize::MAX))
    }

    /// The streams that a read waits for, once each.
    fn before_read(&self, stream: &Stream, bytes: &Range<usize>) -> Vec<Stream> {
        let unknown = self.parts(bytes).filter(|part| !part.is_known(stream));
        others(stream, unknown.map(|part| &part.writer))
    }

    /// The streams that a write waits for, once each.
    fn before_write(&self, stream: &Stream, bytes: &Range<usize>) -> Vec<Stream> {
        let users = |part: &'_ Part| {
            std::iter::once(&part.writer)
                .chain(&part.readers)
                .cloned()
                .collect::<Vec<_>>()
        };
        let users: Vec<Stream> = self.parts(bytes).flat_map(users).collect();
        others(stream, users.iter())
    }

    /// With too many parts: one part again, of which `stream` is behind all uses.
    fn bounded(&mut self, stream: &Stream) -> Result<Released> {
        if self.others.len() < MOST {
            return Ok(Released(Vec::new()));
        }
        for other in self.before_write(stream, &(0..usize::MAX)) {
            stream.wait_for(&other)?;
        }
        let mut parts: Vec<Part> = self.others.drain(..).map(|other| other.1).collect();
        parts.push(std::mem::replace(&mut self.first, Part::of(stream)));
        Ok(Released(parts))
    }

    fn part_mut(&mut self, number: usize) -> &mut Part {
        match number {
            0 => &mut self.first,
            _ => &mut self.others[number - 1].1,
        }
    }

    /// The parts that have some of the bytes.
    fn parts(&self, bytes: &Range<usize>) -> impl Iterator<Item = &Part> {
        let starts = std::iter::once((0, &self.first)).chain(self.others.iter().map(|(start, part)| (*start, part)));
        let ends = self.others.iter().map(|other| other.0).chain([usize::MAX]);
        let bytes = bytes.clone();
        starts
            .zip(ends)
            .filter(move |&((start, _), end)| start < bytes.end && bytes.start < end)
            .map(|((_, part), _)| part)
    }

    /// Lets parts begin and end with the bytes; the numbers of those in between.
    fn cut(&mut self, bytes: &Range<usize>) -> Range<usize> {
        self.cut_at(bytes.start)..self.cut_at(bytes.end)
    }

    /// Lets a part begin at that byte; its number, or that of parts, for the end of the last.
    fn cut_at(&mut self, byte: usize) -> usize {
        match byte {
            0 => return 0,
            usize::MAX => return self.others.len() + 1,
            _ => {}
        }
        match self.others.binary_search_by_key(&byte, |other| other.0) {
            Ok(number) => number + 1,
            Err(number) => {
                let before = match number {
                    0 => &self.first,
                    _ => &self.others[number - 1].1,
                };
                self.others.insert(number, (byte, before.clone()));
                number + 1
            }
        }
    }

    /// Makes neighbours one that are used alike.
    fn merge(&mut self) {
        let mut before = &self.first;
        let keep: Vec<bool> = self
            .others
            .iter()
            .map(|(_, part)| {
                let differs = part != before;
                before = part;
                differs
            })
            .collect();
        let mut keep = keep.into_iter();
        self.others.retain(|_| keep.next().unwrap_or(true));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Device;

    fn streams<const N: usize>() -> [Stream; N] {
        let device = Device::simulator();
        std::array::from_fn(|_| device.create_stream().unwrap())
    }

    #[test]
    fn one_stream_waits_for_nobody() {
        let [a] = streams();
        let mut usage = Usage::of(&a);
        for bytes in [0..usize::MAX, 0..10, 5..7] {
            assert!(usage.before_read(&a, &bytes).is_empty() && usage.before_write(&a, &bytes).is_empty());
            drop(usage.read(&a, bytes.clone()).unwrap());
            drop(usage.write(&a, bytes).unwrap());
            assert!(usage.others.is_empty() && usage.others.capacity() == 0);
        }
    }

    #[test]
    fn writers_of_disjoint_parts_do_not_wait_for_one_another() {
        let [a, b, c] = streams();
        let mut usage = Usage::of(&a);
        // The first use is behind the allocation.
        assert_eq!(usage.before_write(&b, &(0..50)), vec![a.clone()]);
        drop(usage.write(&b, 0..50).unwrap());
        drop(usage.write(&c, 50..usize::MAX).unwrap());
        assert!(usage.before_write(&b, &(0..50)).is_empty());
        assert!(usage.before_write(&c, &(60..70)).is_empty());
        // Bytes of both.
        assert_eq!(usage.before_write(&b, &(40..51)), vec![c.clone()]);
        assert_eq!(usage.before_read(&a, &(0..usize::MAX)), [b.clone(), c.clone()]);
        drop(usage.read(&a, 0..usize::MAX).unwrap());
        assert!(usage.before_read(&a, &(0..usize::MAX)).is_empty());
        // Who writes comes behind who reads.
        assert_eq!(usage.before_write(&b, &(10..20)), vec![a.clone()]);
        drop(usage.write(&a, 0..usize::MAX).unwrap());
        assert!(usage.others.is_empty());
        assert_eq!((usage.last_writer(), usage.users_but(&a)), (&a, vec![]));
    }

    #[test]
    fn reads_of_a_part_are_remembered_of_the_part() {
        let [a, b] = streams();
        let mut usage = Usage::of(&a);
        drop(usage.read(&b, 10..20).unwrap());
        assert_eq!(usage.others.len(), 2);
        assert!(usage.before_write(&a, &(0..10)).is_empty() && usage.before_write(&a, &(20..30)).is_empty());
        assert_eq!(usage.before_write(&a, &(19..30)), vec![b.clone()]);
        assert_eq!(usage.before_read(&b, &(15..25)), vec![a.clone()]);
        assert_eq!((usage.last_writer(), usage.users_but(&a)), (&a, vec![b]));
    }

    #[test]
    fn there_are_not_too_many_parts() {
        let [a, b] = streams();
        let mut usage = Usage::of(&a);
        for part in 0..10 * MOST {
            drop(usage.write(&b, 2 * part..2 * part + 1).unwrap());
            assert!(usage.others.len() < MOST);
        }
        // In all that was done, nothing was forgotten.
        let users = usage.before_write(&a, &(0..usize::MAX));
        assert_eq!(users, [b]);
    }
}
