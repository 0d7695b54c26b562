//! Lists of records, read page by page.

use std::sync::{Arc, Mutex, PoisonError};

use decklog::{Store, bindings};
use napi::Result;
use napi::bindgen_prelude::AsyncTask;
use napi_derive::napi;

use crate::errors::OrThrow as _;
use crate::page;
use crate::tasks::{self, Work};

/// A list of records.
#[napi]
pub struct List {
    store: Store,
    list: Arc<Mutex<bindings::List>>,
}

impl List {
    pub(crate) fn new(store: Store, list: bindings::List) -> List {
        List {
            store,
            list: Arc::new(Mutex::new(list)),
        }
    }
}

fn next(store: &Store, list: &Mutex<bindings::List>) -> Result<Option<String>> {
    let mut list = list.lock().unwrap_or_else(PoisonError::into_inner);
    let items = list.next(store).or_throw()?;
    page::optional((!items.is_empty()).then_some(items))
}

#[napi]
impl List {
    /// The next records; `null` at the end.
    #[napi]
    pub fn next(&self) -> Result<Option<String>> {
        next(&self.store, &self.list)
    }

    #[napi]
    pub fn next_async(&self) -> AsyncTask<Work> {
        let (store, list) = (self.store.clone(), Arc::clone(&self.list));
        tasks::spawn(move || next(&store, &list))
    }
}
