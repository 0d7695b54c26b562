//! A handler with slow calls.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use decklog::http::Options;
use decklog::mcp::rmcp::model::{
    CallToolRequestParams, CallToolResponse, CallToolResult, ContentBlock, ErrorData,
    ProgressNotificationParam, ServerCapabilities, ServerConfig, SubscriptionFilter,
};
use decklog::mcp::rmcp::service::RequestContext;
use decklog::mcp::rmcp::{RoleServer, ServerHandler};
use serde_json::{Value, json};

use super::{Service, call};

/// A handler whose calls take the requested time and report progress.
#[derive(Clone, Default)]
pub(super) struct Slow {
    begun: Arc<AtomicUsize>,
    pub(super) cancelled: Arc<AtomicUsize>,
}

impl Slow {
    pub(super) fn service(&self, options: &Options) -> Service {
        let slow = self.clone();
        Service::serving(options, |server| server.with_mcp(move || slow.clone()))
    }

    pub(super) fn wait(&self) {
        while self.begun.load(Ordering::SeqCst) == 0 {
            std::thread::sleep(Duration::from_millis(5));
        }
    }
}

pub(super) fn slow_call(ms: u64) -> Value {
    let mut call = call(9, "wait", json!({ "ms": ms }));
    call["params"]["_meta"] = json!({"progressToken": "p"});
    call
}

impl ServerHandler for Slow {
    fn get_info(&self) -> ServerConfig {
        let builder = ServerCapabilities::builder().enable_tools();
        ServerConfig::new(builder.enable_tool_list_changed().build())
    }

    fn accepted_subscription_filter(
        &self,
        requested: &SubscriptionFilter,
    ) -> Option<SubscriptionFilter> {
        Some(requested.clone())
    }

    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        self.begun.fetch_add(1, Ordering::SeqCst);
        let ms = request.arguments.unwrap()["ms"].as_u64().unwrap();
        let ends = Instant::now() + Duration::from_millis(ms);
        while Instant::now() < ends {
            tokio::select! {
                () = context.ct.cancelled() => {
                    self.cancelled.fetch_add(1, Ordering::SeqCst);
                    return Err(ErrorData::internal_error("cancelled", None));
                }
                () = tokio::time::sleep(Duration::from_millis(50)) => {}
            }
            if let Some(token) = context.meta.get_progress_token() {
                let progress = ProgressNotificationParam::new(token, 1.0);
                let _ = context.peer.notify_progress(progress).await;
            }
        }
        Ok(CallToolResult::success(vec![ContentBlock::text("waited")]).into())
    }
}
