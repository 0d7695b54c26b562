//! The server, and beside what it offers, the tools, resources and prompts that the conformance
//! suite asks a server to have. Not part of what is released.
//!
//! `mcp_fixtures --store DIR [--port PORT]` serves them over HTTP, with `--stdio` over stdio.

// Logging and sampling leave the protocol, and the suite still asks for them.
#![allow(deprecated)]

use std::borrow::Cow;
use std::error::Error;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};
use std::time::Duration;

use decklog::mcp::{Server, Tools, rmcp, serve_stdio};
use decklog::{Store, http};
use rmcp::model::{
    CallToolRequestParams, CallToolResponse, CallToolResult, ClientResult, CompleteRequestParams,
    CompleteResult, ElicitRequest, GetPromptRequestParams, GetPromptResponse, GetPromptResult,
    JsonObject, ListPromptsResult, ListResourceTemplatesResult, ListResourcesResult,
    ListToolsResult, LoggingLevel, LoggingMessageNotificationParam, PaginatedRequestParams,
    ProgressNotificationParam, ProtocolVersion, ReadResourceRequestParams, ReadResourceResponse,
    ReadResourceResult, Reference, ServerConfig, ServerRequest, SetLevelRequestParams,
    SubscribeRequestParams, SubscriptionFilter, Tool, UnsubscribeRequestParams,
};
use rmcp::service::{NotificationContext, RequestContext, RoleServer, SubscriptionContext};
use rmcp::{ErrorData, ServerHandler};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

/// What they are and say.
const FIXTURES: &str = include_str!("fixtures.json");
const PAUSE: Duration = Duration::from_millis(50);

type Result<T, E = ErrorData> = std::result::Result<T, E>;

fn failed(error: impl std::fmt::Display) -> ErrorData {
    ErrorData::internal_error(error.to_string(), None)
}

fn given<T: DeserializeOwned>(value: Value) -> Result<T> {
    serde_json::from_value(value).map_err(failed)
}

fn text(text: &str) -> Value {
    json!({"type": "text", "text": text})
}

/// A text in whose place an argument is named as `${name}`.
fn filled(value: &Value, arguments: &JsonObject) -> Result<Value> {
    let mut text = value.to_string();
    for (name, argument) in arguments {
        let argument = Value::from(argument.as_str().unwrap_or_default()).to_string();
        let argument = argument.trim_start_matches('"').trim_end_matches('"');
        text = text.replace(&format!("${{{name}}}"), argument);
    }
    serde_json::from_str(&text).map_err(failed)
}

/// What the suite asks for, in front of a server.
struct Fixtures<H> {
    server: H,
    known: Arc<Value>,
    /// The least level that is told, as its place among the levels.
    level: AtomicU8,
}

impl<H: ServerHandler> Fixtures<H> {
    fn new(server: H) -> Result<Fixtures<H>, serde_json::Error> {
        Ok(Fixtures {
            server,
            known: Arc::new(serde_json::from_str(FIXTURES)?),
            level: AtomicU8::default(),
        })
    }

    /// The same, for another session.
    fn anew(&self) -> Fixtures<H>
    where
        H: Clone,
    {
        Fixtures {
            server: self.server.clone(),
            known: Arc::clone(&self.known),
            level: AtomicU8::default(),
        }
    }

    fn listed<T: DeserializeOwned>(&self, what: &str) -> Result<T> {
        given(self.known[what].clone())
    }

    async fn log(&self, context: &RequestContext<RoleServer>, text: &str) -> Result<()> {
        if LoggingLevel::Info as u8 >= self.level.load(Ordering::Relaxed) {
            let message = LoggingMessageNotificationParam::new(LoggingLevel::Info, text.into());
            let told = context.peer.notify_logging_message(message).await;
            told.map_err(failed)?;
        }
        Ok(())
    }

    /// What a fixture answers; None for a tool that is none.
    async fn call(
        &self,
        request: &CallToolRequestParams,
        context: &RequestContext<RoleServer>,
    ) -> Result<Option<CallToolResult>> {
        let name = &*request.name;
        let argument = |name: &str| {
            let arguments = request.arguments.as_ref();
            arguments.and_then(|arguments| arguments.get(name)?.as_str())
        };
        let block = match name {
            "test_error_handling" => {
                let what = json!([text("This tool intentionally returns an error for testing")]);
                return Ok(Some(CallToolResult::error(given(what)?)));
            }
            "test_tool_with_logging" => {
                self.log(context, "Tool execution started").await?;
                tokio::time::sleep(PAUSE).await;
                self.log(context, "Tool processing data").await?;
                tokio::time::sleep(PAUSE).await;
                self.log(context, "Tool execution completed").await?;
                text("It logged three times.")
            }
            "test_tool_with_progress" => tell_progress(context).await?,
            "test_reconnection" => {
                tokio::time::sleep(PAUSE).await;
                text("It took a moment.")
            }
            "test_sampling" => sample(context, argument("prompt").unwrap_or_default()).await?,
            _ => {
                if let Some(form) = self.known["forms"].get(name) {
                    let message = argument("message").unwrap_or("Please fill this in");
                    ask(context, message, form).await?
                } else if let Some(blocks) = self.known["answers"].get(name) {
                    return Ok(Some(CallToolResult::success(given(blocks.clone())?)));
                } else {
                    return Ok(None);
                }
            }
        };
        Ok(Some(CallToolResult::success(given(json!([block]))?)))
    }

    /// What a resource holds; None for one that is no fixture.
    fn read(&self, uri: &str) -> Option<Value> {
        if let Some(contents) = self.known["contents"].get(uri) {
            return Some(contents.clone());
        }
        let id = uri
            .strip_prefix("test://template/")?
            .strip_suffix("/data")?;
        let data = json!({"id": id, "templateTest": true, "data": format!("Data for ID: {id}")});
        let text = data.to_string();
        Some(json!([{"uri": uri, "mimeType": "application/json", "text": text}]))
    }
}

/// Asks the user to fill in a form.
async fn ask(context: &RequestContext<RoleServer>, message: &str, form: &Value) -> Result<Value> {
    let params = given(json!({"mode": "form", "message": message, "requestedSchema": form}))?;
    let request = ServerRequest::ElicitRequest(ElicitRequest::new(params));
    match context.peer.send_request(request).await.map_err(failed)? {
        ClientResult::ElicitResult(answer) => {
            let action = serde_json::to_value(&answer.action).map_err(failed)?;
            let filled = answer.content.unwrap_or_default();
            let said = format!("Elicitation completed: action={action}, content={filled}");
            Ok(text(&said))
        }
        _ => Err(failed("the client answered with something else")),
    }
}

/// Asks the client's model.
async fn sample(context: &RequestContext<RoleServer>, prompt: &str) -> Result<Value> {
    let asked = json!({"role": "user", "content": text(prompt)});
    let params = given(json!({"messages": [asked], "maxTokens": 100}))?;
    let answer = context.peer.create_message(params).await.map_err(failed)?;
    let answer = serde_json::to_value(&answer.message.content).map_err(failed)?;
    let said = answer["text"].as_str().unwrap_or_default();
    Ok(text(&format!("LLM response: {said}")))
}

async fn tell_progress(context: &RequestContext<RoleServer>) -> Result<Value> {
    for done in [0.0, 50.0, 100.0] {
        if let Some(token) = context.meta.get_progress_token() {
            let progress = ProgressNotificationParam::new(token, done).with_total(100.0);
            let told = context.peer.notify_progress(progress).await;
            told.map_err(failed)?;
        }
        tokio::time::sleep(PAUSE).await;
    }
    Ok(text("All of it is done."))
}

impl<H: ServerHandler> ServerHandler for Fixtures<H> {
    fn get_info(&self) -> ServerConfig {
        let mut info = self.server.get_info();
        info.capabilities.logging.get_or_insert_default();
        info.capabilities.completions.get_or_insert_default();
        info.capabilities.tools.get_or_insert_default();
        info.capabilities.prompts.get_or_insert_default();
        let resources = info.capabilities.resources.get_or_insert_default();
        resources.subscribe = Some(true);
        info
    }

    fn supported_protocol_versions(&self) -> Cow<'static, [ProtocolVersion]> {
        self.server.supported_protocol_versions()
    }

    async fn on_initialized(&self, context: NotificationContext<RoleServer>) {
        self.server.on_initialized(context).await;
    }

    fn get_tool(&self, name: &str) -> Option<Tool> {
        self.server.get_tool(name)
    }

    async fn list_tools(
        &self,
        request: Option<PaginatedRequestParams>,
        context: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult> {
        let mut page = self.server.list_tools(request, context).await?;
        if page.next_cursor.is_none() {
            page.tools.extend(self.listed::<Vec<_>>("tools")?);
        }
        Ok(page)
    }

    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse> {
        match self.call(&request, &context).await? {
            Some(answer) => Ok(answer.into()),
            None => self.server.call_tool(request, context).await,
        }
    }

    async fn list_resources(
        &self,
        request: Option<PaginatedRequestParams>,
        context: RequestContext<RoleServer>,
    ) -> Result<ListResourcesResult> {
        let mut page = self.server.list_resources(request, context).await?;
        if page.next_cursor.is_none() {
            page.resources.extend(self.listed::<Vec<_>>("resources")?);
        }
        Ok(page)
    }

    async fn list_resource_templates(
        &self,
        request: Option<PaginatedRequestParams>,
        context: RequestContext<RoleServer>,
    ) -> Result<ListResourceTemplatesResult> {
        let mut page = self
            .server
            .list_resource_templates(request, context)
            .await?;
        page.resource_templates.push(self.listed("template")?);
        Ok(page)
    }

    async fn read_resource(
        &self,
        request: ReadResourceRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<ReadResourceResponse> {
        match self.read(&request.uri) {
            Some(contents) => Ok(ReadResourceResult::new(given(contents)?).into()),
            None => self.server.read_resource(request, context).await,
        }
    }

    async fn subscribe(
        &self,
        request: SubscribeRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<()> {
        if request.uri.starts_with("test://") {
            return Ok(());
        }
        self.server.subscribe(request, context).await
    }

    async fn unsubscribe(
        &self,
        request: UnsubscribeRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<()> {
        if request.uri.starts_with("test://") {
            return Ok(());
        }
        self.server.unsubscribe(request, context).await
    }

    fn accepted_subscription_filter(
        &self,
        requested: &SubscriptionFilter,
    ) -> Option<SubscriptionFilter> {
        self.server.accepted_subscription_filter(requested)
    }

    async fn listen(&self, context: SubscriptionContext) -> Result<()> {
        self.server.listen(context).await
    }

    async fn list_prompts(
        &self,
        request: Option<PaginatedRequestParams>,
        context: RequestContext<RoleServer>,
    ) -> Result<ListPromptsResult> {
        let mut page = self.server.list_prompts(request, context).await?;
        if page.next_cursor.is_none() {
            page.prompts.extend(self.listed::<Vec<_>>("prompts")?);
        }
        Ok(page)
    }

    async fn get_prompt(
        &self,
        request: GetPromptRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<GetPromptResponse> {
        let arguments = request.arguments.clone().unwrap_or_default();
        match self.known["messages"].get(&request.name) {
            Some(messages) => {
                let messages = given(filled(messages, &arguments)?)?;
                Ok(GetPromptResult::new(messages).into())
            }
            None => self.server.get_prompt(request, context).await,
        }
    }

    async fn complete(
        &self,
        request: CompleteRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<CompleteResult> {
        match &request.r#ref {
            Reference::Prompt(asked) if asked.name.starts_with("test_") => {
                let values = [format!("{}1", request.argument.value)];
                let completion = json!({"values": values, "total": 1, "hasMore": false});
                Ok(CompleteResult::new(given(completion)?))
            }
            _ => self.server.complete(request, context).await,
        }
    }

    async fn set_level(
        &self,
        request: SetLevelRequestParams,
        _: RequestContext<RoleServer>,
    ) -> Result<()> {
        self.level.store(request.level as u8, Ordering::Relaxed);
        Ok(())
    }
}

/// What the command line says.
struct Args {
    store: PathBuf,
    port: u16,
    is_stdio: bool,
}

fn args() -> Result<Args, Box<dyn Error>> {
    let (mut store, mut port, mut is_stdio) = (None, 0, false);
    let mut args = std::env::args().skip(1);
    while let Some(arg) = args.next() {
        match &*arg {
            "--stdio" => is_stdio = true,
            "--port" => port = args.next().ok_or("--port takes a port")?.parse()?,
            "--store" => store = args.next().map(PathBuf::from),
            _ => return Err(format!("{arg} is unknown").into()),
        }
    }
    Ok(Args {
        store: store.ok_or("--store DIR is missing")?,
        port,
        is_stdio,
    })
}

fn main() -> Result<(), Box<dyn Error>> {
    let args = args()?;
    let store = Store::open(&args.store)?;
    let server = Server::new(store.clone(), Tools::all());
    if args.is_stdio {
        return Ok(serve_stdio(Fixtures::new(server)?)?);
    }
    let addr = SocketAddr::from(([127, 0, 0, 1], args.port));
    let service = http::Server::bind(store, addr, &http::Options::default())?;
    let fixtures = Fixtures::new(server)?;
    eprintln!("serving at http://{}", service.local_addr());
    service.with_mcp(move || fixtures.anew()).run()?;
    Ok(())
}
