//! Work on a thread of libuv.

use napi::bindgen_prelude::AsyncTask;
use napi::{Env, Result, Task};

use crate::errors;

type Function = Box<dyn FnOnce() -> Result<Option<String>> + Send>;

/// Work whose result is a text.
pub struct Work(Option<Function>);

pub(crate) fn spawn(
    work: impl FnOnce() -> Result<Option<String>> + Send + 'static,
) -> AsyncTask<Work> {
    AsyncTask::new(Work(Some(Box::new(work))))
}

impl Task for Work {
    type Output = Option<String>;
    type JsValue = Option<String>;

    fn compute(&mut self) -> Result<Option<String>> {
        let work = self.0.take().ok_or_else(|| errors::fault("it is done"))?;
        work()
    }

    fn resolve(&mut self, _: Env, output: Option<String>) -> Result<Option<String>> {
        Ok(output)
    }
}
