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
        let is_known = |part: &Part| part.writer == *stream || part.readers.contains(stream);
        if bytes.is_empty() || (self.others.is_empty() && is_known(&self.first)) {
            return Ok(Released(Vec::new()));
        }
        let mut behind: Vec<Stream> = Vec::new();
        for part in self.parts(&bytes).filter(|part| !is_known(part)) {
            if !behind.contains(&part.writer) {
                stream.wait_for(&part.writer)?;
                behind.push(part.writer.clone());
            }
        }
        if behind.is_empty() {
            return Ok(Released(Vec::new()));
        }
        let range = self.cut(&bytes);
        for part in std::iter::once(&mut self.first)
            .chain(self.others.iter_mut().map(|other| &mut other.1))
            .take(range.end)
            .skip(range.start)
        {
            if part.writer != *stream && !part.readers.contains(stream) {
                part.readers.push(stream.clone());
            }
        }
        self.merge();
        if self.others.len() >= MOST {
            return self.order_all(stream);
        }
        Ok(Released(Vec::new()))
    }

    /// Orders `stream` behind the writes and reads of those bytes, and remembers the write.
    pub(crate) fn write(&mut self, stream: &Stream, bytes: Range<usize>) -> Result<Released> {
        let is_own = |part: &Part| part.writer == *stream && part.readers.is_empty();
        if bytes.is_empty() || (self.others.is_empty() && is_own(&self.first)) {
            return Ok(Released(Vec::new()));
        }
        Self::wait(stream, self.parts(&bytes))?;
        let range = self.cut(&bytes);
        let mut parts = Vec::with_capacity(range.len());
        // The parts of the range become one, at the place of the first.
        parts.extend(self.others.drain(range.start..range.end - 1).map(|other| other.1));
        let kept = match range.start {
            0 => &mut self.first,
            // Drained were those from the second of the range on.
            start => &mut self.others[start - 1].1,
        };
        parts.push(std::mem::replace(kept, Part::of(stream)));
        self.merge();
        if self.others.len() >= MOST {
            parts.extend(self.order_all(stream)?.0);
        }
        Ok(Released(parts))
    }

    /// Orders the stream that the memory is given back on behind all uses, and returns it.
    pub(crate) fn end(&self) -> (&Stream, Result<()>) {
        let stream = &self.first.writer;
        (stream, Self::wait(stream, self.parts(&(0..usize::MAX))))
    }

    /// Lets `stream` wait for all other streams of the parts, once for each.
    fn wait<'a>(stream: &Stream, parts: impl Iterator<Item = &'a Part>) -> Result<()> {
        let mut behind: Vec<&Stream> = Vec::new();
        for other in parts.flat_map(|part| std::iter::once(&part.writer).chain(&part.readers)) {
            if other != stream && !behind.contains(&other) {
                stream.wait_for(other)?;
                behind.push(other);
            }
        }
        Ok(())
    }

    /// One part again, of which `stream` is behind all uses.
    fn order_all(&mut self, stream: &Stream) -> Result<Released> {
        Self::wait(stream, self.parts(&(0..usize::MAX)))?;
        let mut parts: Vec<Part> = self.others.drain(..).map(|other| other.1).collect();
        parts.push(std::mem::replace(&mut self.first, Part::of(stream)));
        Ok(Released(parts))
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
