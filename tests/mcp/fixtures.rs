//! The server, and beside what it offers, the tools, resources and prompts that the conformance
//! suite asks a server to have. Not part of what is released.
//!
//! `mcp_fixtures --store DIR [--port PORT]` serves them over HTTP, with `--stdio` over stdio.

// Logging and sampling leave the protocol, and the suite still asks for them.
#![allow(deprecated)]

use std::borrow::Cow;
use std::error::Error;
use std::sync::atomic::{AtomicU8, Ordering};
use std::time::Duration;

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

/// One red pixel.
const PNG: &str =
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAIAAACQd1PeAAAADElEQVR4nGP4z8AAAAMBAQDJ/pLvAAAAAElFTkSuQmCC";
/// No sound, in a header.
const WAV: &str = "UklGRiQAAABXQVZFZm10IBAAAAABAAEAQB8AAEAfAAABAAgAZGF0YQAAAAA=";
const PAUSE: Duration = Duration::from_millis(50);

/// What the suite asks for, in front of a server.
struct Fixtures<H> {
    server: H,
    /// The least level that is told, as its place among the levels.
    level: AtomicU8,
}

impl<H: ServerHandler> Fixtures<H> {
    fn new(server: H) -> Fixtures<H> {
        let level = AtomicU8::new(0);
        Fixtures { server, level }
    }

    async fn told(
        &self,
        context: &RequestContext<RoleServer>,
        text: &str,
    ) -> Result<(), ErrorData> {
        if LoggingLevel::Info as u8 >= self.level.load(Ordering::Relaxed) {
            let message = LoggingMessageNotificationParam::new(LoggingLevel::Info, text.into());
            context
                .peer
                .notify_logging_message(message)
                .await
                .map_err(failed)?;
        }
        Ok(())
    }
}

type Result<T, E = ErrorData> = std::result::Result<T, E>;

fn failed(error: impl std::fmt::Display) -> ErrorData {
    ErrorData::internal_error(error.to_string(), None)
}

fn given<T: DeserializeOwned>(value: Value) -> Result<T> {
    serde_json::from_value(value).map_err(failed)
}

/// What each fixture is listed as.
fn tools() -> Value {
    let nothing = json!({"type": "object", "additionalProperties": false});
    let text = |name: &str| json!({"type": "object", "properties": {name: {"type": "string"}}, "required": [name]});
    let plain = [
        ("test_empty", "Does nothing: what a call costs at the least"),
        ("test_simple_text", "Answers with a text"),
        ("test_image_content", "Answers with an image"),
        ("test_audio_content", "Answers with a sound"),
        ("test_embedded_resource", "Answers with a resource"),
        (
            "test_multiple_content_types",
            "Answers with a text, an image and a resource",
        ),
        ("test_tool_with_logging", "Logs while it runs"),
        ("test_tool_with_progress", "Tells how far it is"),
        ("test_error_handling", "Fails"),
        ("test_reconnection", "Takes a moment"),
        (
            "test_elicitation_sep1034_defaults",
            "Asks the user, with defaults",
        ),
        ("test_elicitation_sep1330_enums", "Asks the user to choose"),
    ];
    let mut tools: Vec<Value> = plain
        .iter()
        .map(|(name, what)| json!({"name": name, "description": what, "inputSchema": nothing}))
        .collect();
    tools.push(json!({"name": "test_sampling", "description": "Asks the client's model", "inputSchema": text("prompt")}));
    tools.push(json!({"name": "test_elicitation", "description": "Asks the user", "inputSchema": text("message")}));
    tools.push(json!({
        "name": "json_schema_2020_12_tool",
        "description": "Has a schema with more than the usual",
        "inputSchema": {
            "$schema": "https://json-schema.org/draft/2020-12/schema",
            "type": "object",
            "$defs": {"address": {
                "type": "object",
                "properties": {"street": {"type": "string"}, "city": {"type": "string"}},
            }},
            "properties": {"name": {"type": "string"}, "address": {"$ref": "#/$defs/address"}},
            "additionalProperties": false,
        },
    }));
    Value::Array(tools)
}

fn resources() -> Value {
    json!([
        {"uri": "test://static-text", "name": "static-text", "description": "A text", "mimeType": "text/plain"},
        {"uri": "test://static-binary", "name": "static-binary", "description": "An image", "mimeType": "image/png"},
        {"uri": "test://watched-resource", "name": "watched-resource", "description": "To subscribe to", "mimeType": "text/plain"},
    ])
}

fn prompts() -> Value {
    let argument = |name: &str| json!({"name": name, "description": "Any text", "required": true});
    json!([
        {"name": "test_simple_prompt", "description": "Without arguments"},
        {"name": "test_prompt_with_arguments", "description": "With two", "arguments": [argument("arg1"), argument("arg2")]},
        {"name": "test_prompt_with_embedded_resource", "description": "With a resource", "arguments": [argument("resourceUri")]},
        {"name": "test_prompt_with_image", "description": "With an image"},
    ])
}

fn text(text: &str) -> Value {
    json!({"type": "text", "text": text})
}

fn image() -> Value {
    json!({"type": "image", "data": PNG, "mimeType": "image/png"})
}

fn resource(uri: &str, mime: &str, text: &str) -> Value {
    json!({"type": "resource", "resource": {"uri": uri, "mimeType": mime, "text": text}})
}

/// The fields of a form with defaults of every kind.
fn defaults() -> Value {
    json!({"type": "object", "properties": {
        "name": {"type": "string", "default": "John Doe"},
        "age": {"type": "integer", "default": 30},
        "score": {"type": "number", "default": 95.5},
        "status": {"type": "string", "enum": ["active", "inactive", "pending"], "default": "active"},
        "verified": {"type": "boolean", "default": true},
    }})
}

/// The fields of a form with choices of every kind.
fn choices() -> Value {
    let options = json!(["option1", "option2", "option3"]);
    let titled = json!([
        {"const": "value1", "title": "First Option"},
        {"const": "value2", "title": "Second Option"},
        {"const": "value3", "title": "Third Option"},
    ]);
    json!({"type": "object", "properties": {
        "untitledSingle": {"type": "string", "enum": options},
        "titledSingle": {"type": "string", "oneOf": titled},
        "legacyEnum": {
            "type": "string",
            "enum": ["opt1", "opt2", "opt3"],
            "enumNames": ["Option One", "Option Two", "Option Three"],
        },
        "untitledMulti": {"type": "array", "items": {"type": "string", "enum": options}},
        "titledMulti": {"type": "array", "items": {"anyOf": titled}},
    }})
}

/// Asks the user to fill in a form.
async fn ask(context: &RequestContext<RoleServer>, message: &str, schema: Value) -> Result<Value> {
    let params = given(json!({"mode": "form", "message": message, "requestedSchema": schema}))?;
    let request = ServerRequest::ElicitRequest(ElicitRequest::new(params));
    match context.peer.send_request(request).await.map_err(failed)? {
        ClientResult::ElicitResult(answer) => {
            let filled = answer.content.unwrap_or_default();
            let action = serde_json::to_value(&answer.action).map_err(failed)?;
            Ok(text(&format!(
                "Elicitation completed: action={action}, content={content}"
            )))
        }
        _ => Err(failed("the client answered with something else")),
    }
}

/// Asks the client's model.
async fn sample(context: &RequestContext<RoleServer>, prompt: &str) -> Result<Value> {
    let params = given(json!({
        "messages": [{"role": "user", "content": text(prompt)}],
        "maxTokens": 100,
    }))?;
    let answer = context.peer.create_message(params).await.map_err(failed)?;
    let answer = serde_json::to_value(&answer.message.content).map_err(failed)?;
    let said = answer.pointer("/text").and_then(Value::as_str);
    let said = said.map_or_else(|| answer.to_string(), str::to_owned);
    Ok(text(&format!("LLM response: {said}")))
}

async fn tell_progress(context: &RequestContext<RoleServer>) -> Result<Value> {
    let token = context.meta.get_progress_token();
    for done in [0.0, 50.0, 100.0] {
        if let Some(token) = token.clone() {
            let progress = ProgressNotificationParam::new(token, done).with_total(100.0);
            context
                .peer
                .notify_progress(progress)
                .await
                .map_err(failed)?;
        }
        tokio::time::sleep(PAUSE).await;
    }
    Ok(text("All of it is done."))
}

impl<H: ServerHandler> Fixtures<H> {
    /// What a fixture answers; None for a tool that is none.
    async fn call(
        &self,
        request: &CallToolRequestParams,
        context: &RequestContext<RoleServer>,
    ) -> Result<Option<CallToolResult>> {
        let argument = |name: &str| {
            let arguments = request.arguments.as_ref();
            let value = arguments.and_then(|arguments| arguments.get(name)?.as_str());
            value.ok_or_else(|| ErrorData::invalid_params(format!("{name} is missing"), None))
        };
        let blocks = match &*request.name {
            "test_empty" => json!([]),
            "test_simple_text" => json!([text("This is a simple text response for testing.")]),
            "test_image_content" => json!([image()]),
            "test_audio_content" => {
                json!([{"type": "audio", "data": WAV, "mimeType": "audio/wav"}])
            }
            "test_embedded_resource" => {
                let what = "This is an embedded resource content.";
                json!([resource("test://embedded-resource", "text/plain", what)])
            }
            "test_multiple_content_types" => {
                let what = r#"{"test":"data","value":123}"#;
                let uri = "test://mixed-content-resource";
                let resource = resource(uri, "application/json", what);
                json!([text("Multiple content types test:"), image(), resource])
            }
            "test_tool_with_logging" => {
                self.told(context, "Tool execution started").await?;
                tokio::time::sleep(PAUSE).await;
                self.told(context, "Tool processing data").await?;
                tokio::time::sleep(PAUSE).await;
                self.told(context, "Tool execution completed").await?;
                json!([text("It logged three times.")])
            }
            "test_tool_with_progress" => json!([tell_progress(context).await?]),
            "test_error_handling" => {
                let what = "This tool intentionally returns an error for testing";
                return Ok(Some(CallToolResult::error(given(json!([text(what)]))?)));
            }
            "test_reconnection" => {
                tokio::time::sleep(PAUSE).await;
                json!([text("It took a moment.")])
            }
            "test_sampling" => json!([sample(context, argument("prompt")?).await?]),
            "test_elicitation" => {
                let field = |what: &str| json!({"type": "string", "description": what});
                let schema = json!({
                    "type": "object",
                    "properties": {
                        "username": field("User's response"),
                        "email": field("User's email address"),
                    },
                    "required": ["username", "email"],
                });
                json!([ask(context, argument("message")?, schema).await?])
            }
            "test_elicitation_sep1034_defaults" => {
                json!([ask(context, "Please check these", defaults()).await?])
            }
            "test_elicitation_sep1330_enums" => {
                json!([ask(context, "Please choose", choices()).await?])
            }
            "json_schema_2020_12_tool" => json!([text("It has a schema.")]),
            _ => return Ok(None),
        };
        Ok(Some(CallToolResult::success(given(blocks)?)))
    }
}

/// What a resource holds; None for one that is no fixture.
fn read(uri: &str) -> Option<Value> {
    let contents = match uri {
        "test://static-text" => {
            json!({"uri": uri, "mimeType": "text/plain", "text": "This is the content of the static text resource."})
        }
        "test://watched-resource" => {
            json!({"uri": uri, "mimeType": "text/plain", "text": "It never changes."})
        }
        "test://static-binary" => json!({"uri": uri, "mimeType": "image/png", "blob": PNG}),
        _ => {
            let id = uri
                .strip_prefix("test://template/")?
                .strip_suffix("/data")?;
            let data =
                json!({"id": id, "templateTest": true, "data": format!("Data for ID: {id}")});
            json!({"uri": uri, "mimeType": "application/json", "text": data.to_string()})
        }
    };
    Some(json!([contents]))
}

/// What a prompt says; None for one that is no fixture.
fn prompt(name: &str, arguments: &JsonObject) -> Option<Value> {
    let argument = |name: &str| {
        arguments
            .get(name)
            .and_then(Value::as_str)
            .unwrap_or_default()
    };
    let contents = match name {
        "test_simple_prompt" => vec![text("This is a simple prompt for testing.")],
        "test_prompt_with_arguments" => {
            let (first, second) = (argument("arg1"), argument("arg2"));
            vec![text(&format!(
                "Prompt with arguments: arg1='{first}', arg2='{second}'"
            ))]
        }
        "test_prompt_with_embedded_resource" => {
            let uri = argument("resourceUri");
            let what = "Embedded resource content for testing.";
            let resource = resource(uri, "text/plain", what);
            vec![
                resource,
                text("Please process the embedded resource above."),
            ]
        }
        "test_prompt_with_image" => vec![image(), text("Please analyze the image above.")],
        _ => return None,
    };
    let said = |content| json!({"role": "user", "content": content});
    Some(contents.into_iter().map(said).collect())
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
            page.tools.extend(given::<Vec<_>>(tools())?);
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
            page.resources.extend(given::<Vec<_>>(resources())?);
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
        let template = json!({
            "uriTemplate": "test://template/{id}/data",
            "name": "template",
            "description": "Any id",
            "mimeType": "application/json",
        });
        page.resource_templates.push(given(template)?);
        Ok(page)
    }

    async fn read_resource(
        &self,
        request: ReadResourceRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<ReadResourceResponse> {
        match read(&request.uri) {
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
            page.prompts.extend(given::<Vec<_>>(prompts())?);
        }
        Ok(page)
    }

    async fn get_prompt(
        &self,
        request: GetPromptRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<GetPromptResponse> {
        let arguments = request.arguments.clone().unwrap_or_default();
        match prompt(&request.name, &arguments) {
            Some(messages) => Ok(GetPromptResult::new(given(messages)?).into()),
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
    port: u16,
    is_stdio: bool,
}

fn args() -> Result<Args, Box<dyn Error>> {
    let mut asked = Args {
        port: 0,
        is_stdio: false,
    };
    let mut args = std::env::args().skip(1);
    while let Some(arg) = args.next() {
        match &*arg {
            "--stdio" => asked.is_stdio = true,
            "--port" => asked.port = args.next().ok_or("--port takes a port")?.parse()?,
            "--store" => {
                args.next();
            }
            _ => return Err(format!("{arg} is unknown").into()),
        }
    }
    Ok(asked)
}

struct StandIn;
impl ServerHandler for StandIn {}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    use rmcp::ServiceExt;
    use rmcp::transport::streamable_http_server::{
        StreamableHttpService, session::local::LocalSessionManager,
    };
    let args = args()?;
    if args.is_stdio {
        let running = Fixtures::new(StandIn)
            .serve(rmcp::transport::stdio())
            .await?;
        running.waiting().await?;
        return Ok(());
    }
    let service = StreamableHttpService::new(
        || Ok(Fixtures::new(StandIn)),
        std::sync::Arc::new(LocalSessionManager::default()),
        rmcp::transport::StreamableHttpServerConfig::default(),
    );
    let router = axum::Router::new().nest_service("/mcp", service);
    let listener = tokio::net::TcpListener::bind(("127.0.0.1", args.port)).await?;
    eprintln!("serving at http://{}", listener.local_addr()?);
    axum::serve(listener, router).await?;
    Ok(())
}
