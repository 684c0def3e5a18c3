//! Skills as tools: the answer becomes a tool result of MCP. Tools as skills: the result becomes an
//! artifact.
//!
//! Data stays raw text, so that its numbers keep all digits.

mod answer;
mod artifact;
mod result;
#[cfg(test)]
mod tests;

pub use self::{
    answer::{Message, Part, SendResponse, Task},
    artifact::{parts_of_result, text_of_result},
    result::{OpenTask, Text, of_message, of_task},
};
