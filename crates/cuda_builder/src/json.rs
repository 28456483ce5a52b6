// SPDX-License-Identifier: MIT OR Apache-2.0
//! What cargo prints, as JSON: its members, of which any may be missing.

use std::collections::HashMap;

pub(crate) use tinyjson::JsonValue as Value;

/// Reads a text; an error says what is wrong with it.
pub(crate) fn parse(text: &[u8]) -> Result<Value, String> {
    let text = str::from_utf8(text).map_err(|error| error.to_string())?;
    text.parse()
        .map_err(|error: tinyjson::JsonParseError| error.to_string())
}

/// The member of that name, if `object` is an object that has one.
pub(crate) fn member<'a>(object: &'a Value, name: &str) -> Option<&'a Value> {
    object.get::<HashMap<String, Value>>()?.get(name)
}

/// The member's text, if it is one.
pub(crate) fn text<'a>(object: &'a Value, name: &str) -> Option<&'a str> {
    as_text(member(object, name)?)
}

/// The member's elements; none where it is no array.
pub(crate) fn elements<'a>(object: &'a Value, name: &str) -> &'a [Value] {
    let array = member(object, name).and_then(Value::get::<Vec<Value>>);
    array.map_or(&[], Vec::as_slice)
}

/// The text, if it is one.
pub(crate) fn as_text(value: &Value) -> Option<&str> {
    value.get::<String>().map(String::as_str)
}
