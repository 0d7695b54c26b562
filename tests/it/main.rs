mod faults;
mod files;
mod import;
mod model;
mod races;
mod recovery;
mod rules;
mod support;
